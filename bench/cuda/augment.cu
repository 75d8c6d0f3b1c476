#include "cuda/augment.h"

#include "covnoise/ops/philox.h"
#include "support.h"

namespace covnoise::cuda::bench {
namespace {

struct Set {
  int examples, channels, side;
  std::vector<std::uint8_t> images;
  std::vector<std::int64_t> order;

  Set(int n, int c, int s) : examples(n), channels(c), side(s), images(static_cast<std::size_t>(n) * c * s * s) {
    std::mt19937 generator(5);
    for (auto& pixel : images) pixel = static_cast<std::uint8_t>(generator() >> 24);
    for (int i = 0; i < n; ++i) order.push_back((i * 7 + 3) % n);
  }
};

/// ops/load_images.cpp, in double and channels-last.
Values reference(const Set& set, const Augmentation& a) {
  Values out;
  const RandomStream stream{a.seed, Purpose::kAugmentation, a.epoch};
  for (int m = 0; m < a.examples; ++m) {
    const std::int64_t example = set.order[static_cast<std::size_t>(m)];
    const Philox4 words = stream.words(static_cast<std::uint64_t>(example));
    const int row = static_cast<int>((std::uint64_t{words.x[0]} * 9) >> 32) - 4;
    const int column = static_cast<int>((std::uint64_t{words.x[1]} * 9) >> 32) - 4;
    const bool flip = (words.x[2] >> 31) != 0;
    for (int y = 0; y < set.side; ++y)
      for (int x = 0; x < set.side; ++x)
        for (int c = 0; c < set.channels; ++c) {
          const int from_y = a.augment ? y + row : y;
          const int from_x = a.augment ? (flip ? set.side - 1 - x : x) + column : x;
          const bool inside = from_y >= 0 && from_y < set.side && from_x >= 0 && from_x < set.side;
          const int pixel =
              inside
                  ? set.images[((static_cast<std::size_t>(example) * set.channels + c) * set.side + from_y) * set.side +
                               from_x]
                  : 0;
          out.push_back(pixel * static_cast<double>(a.scale[c]) + a.shift[c]);
        }
  }
  return out;
}

Augmentation make_call(const Set& set, int examples, Scalar scalar) {
  Augmentation a;
  a.examples = examples, a.channels = set.channels, a.height = a.width = set.side;
  a.seed = 17, a.scalar = scalar;
  for (int c = 0; c < set.channels; ++c) a.scale[c] = 0.015f + 0.001f * c, a.shift[c] = -1.9f - 0.1f * c;
  return a;
}

}  // namespace

void check_augment(Checker& checker) {
  for (const int channels : {1, 3})
    for (const int side : {28, 9})
      for (const bool augment : {true, false})
        for (const Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat32}) {
          const Set set(40, channels, side);
          Augmentation a = make_call(set, 11, scalar);
          const Buffer<std::uint8_t> images(set.images);
          const Buffer<std::int64_t> order(set.order);
          const Tensor out(static_cast<std::size_t>(11) * channels * side * side, scalar);
          a.augment = augment, a.images = images.get(), a.indices = order.get(), a.epoch = 3, a.out = out.get();
          load_batch(a, nullptr);
          const std::string name = "augmentation " + std::to_string(channels) + "x" + std::to_string(side) +
                                   (augment ? "" : " plain") + (scalar == Scalar::kBFloat16 ? " bf16" : " fp32");
          checker.compare(name, out.download(), reference(set, a), scalar == Scalar::kBFloat16 ? 3e-3 : 1e-6);
        }
}

void time_augment(int n) {
  const Set set(50000, 3, 32);
  const Buffer<std::uint8_t> images(set.images);
  const Buffer<std::int64_t> order(set.order);
  for (const Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat32}) {
    const Tensor out(static_cast<std::size_t>(n) * 3072, scalar);
    Augmentation a = make_call(set, n, scalar);
    a.images = images.get(), a.indices = order.get(), a.out = out.get();
    print_row("augmentation", scalar == Scalar::kBFloat16 ? "4096x3x32x32 bf16" : "4096x3x32x32 fp32",
              milliseconds([&](cudaStream_t s) { load_batch(a, s); }), 3072.0 * n * (1 + bytes_of(scalar)), 0);
  }
}

}  // namespace covnoise::cuda::bench
