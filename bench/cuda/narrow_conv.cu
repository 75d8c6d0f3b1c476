#include "cuda/ghost_norm.h"
#include "cuda/narrow_conv.h"
#include "support.h"

#include <memory>

namespace covnoise::cuda::bench {
namespace {

NarrowConvolution conv(int n, int side, int c, int o, int stride, bool input_gradient) {
  NarrowConvolution call;
  call.examples = n, call.height = side, call.width = side, call.channels = c, call.outputs = o, call.stride = stride;
  call.input_gradient = input_gradient;
  return call;
}

std::string describe(const NarrowConvolution& c) {
  return std::to_string(c.examples) + "x" + std::to_string(c.height) + "x" + std::to_string(c.width) + " " +
         std::to_string(c.channels) + "->" + std::to_string(c.outputs) + (c.stride > 1 ? " s2" : "");
}

std::size_t input_size(const NarrowConvolution& c) {
  return c.input_gradient ? static_cast<std::size_t>(c.examples) * c.out_height() * c.out_width() * c.outputs
                          : static_cast<std::size_t>(c.examples) * c.height * c.width * c.channels;
}
std::size_t output_size(const NarrowConvolution& c) {
  return c.input_gradient ? static_cast<std::size_t>(c.examples) * c.height * c.width * c.channels
                          : static_cast<std::size_t>(c.examples) * c.out_height() * c.out_width() * c.outputs;
}

/// Both directions: the products of every (output pixel, input pixel, offset), from the forward definition.
Values reference(const NarrowConvolution& c, const Values& input, const Values& weight) {
  Values out(output_size(c));
  for (int n = 0; n < c.examples; ++n)
    for (int i = 0; i < c.out_height(); ++i)
      for (int j = 0; j < c.out_width(); ++j)
        for (int tap = 0; tap < 9; ++tap) {
          const int y = i * c.stride + tap / 3 - 1, x = j * c.stride + tap % 3 - 1;
          if (y < 0 || y >= c.height || x < 0 || x >= c.width) continue;
          const std::size_t at = ((static_cast<std::size_t>(n) * c.height + y) * c.width + x) * c.channels;
          const std::size_t to = ((static_cast<std::size_t>(n) * c.out_height() + i) * c.out_width() + j) * c.outputs;
          for (int o = 0; o < c.outputs; ++o)
            for (int k = 0; k < c.channels; ++k) {
              const double w = weight[(static_cast<std::size_t>(o) * c.channels + k) * 9 + tap];
              if (c.input_gradient)
                out[at + k] += input[to + o] * w;
              else
                out[to + o] += input[at + k] * w;
            }
        }
  return out;
}

/// Room for the epilogue's parts.
struct Parts {
  Buffer<float> mean, m2, count;
  Parts(std::size_t parts, int channels) : mean(parts * channels), m2(parts * channels), count(parts) {}
};

void check_statistics(Checker& checker, const NarrowConvolution& c, const GhostPartials& partials, const Values& y,
                      const std::string& name) {
  const GhostShape shape{c.examples, c.out_height() * c.out_width(), c.outputs, c.ghost_batch};
  const Buffer<float> ones(std::vector<float>(c.outputs, 1.0f)), zeros(std::vector<float>(c.outputs));
  const Buffer<float> mean(shape.values()), rstd(shape.values()), variance(shape.values()), scale(shape.values()),
      shift(shape.values());
  ghost_norm_finish(shape, partials, ones.get(), zeros.get(), 1e-5f,
                    {mean.get(), rstd.get(), variance.get(), scale.get(), shift.get()}, nullptr);
  Values wanted(shape.values()), wanted_variance(shape.values());
  const double count = static_cast<double>(c.ghost_batch) * shape.positions;
  const std::size_t ghost_size = y.size() / static_cast<std::size_t>(shape.ghosts());
  for (std::size_t i = 0; i < y.size(); ++i) wanted[i / ghost_size * c.outputs + i % c.outputs] += y[i] / count;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t at = i / ghost_size * c.outputs + i % c.outputs;
    wanted_variance[at] += (y[i] - wanted[at]) * (y[i] - wanted[at]) / count;
  }
  checker.compare(name + ", mean", as_values(mean.download()), wanted, 1e-5);
  checker.compare(name + ", variance", as_values(variance.download()), wanted_variance, 1e-5);
}

void check_one(Checker& checker, NarrowConvolution c, bool statistics, bool prologue, bool addend = false) {
  const auto bf16 = Scalar::kBFloat16;
  Values input = random_values(input_size(c), bf16, 1, 0.5);
  const Values weight = random_values(static_cast<std::size_t>(c.outputs) * c.channels * 9, bf16, 2, 0, 0.1);
  const Tensor input_device(input, bf16), output(output_size(c), bf16);
  const Buffer<float> weight_device(as_floats(weight));
  const Buffer<std::uint8_t> packed(packed_weight_bytes(c.channels, c.outputs));
  const PackedWeights item{weight_device.get(), packed.get(), c.channels, c.outputs, c.stride, c.input_gradient};
  pack_weights(&item, 1, nullptr);
  c.input = input_device.get(), c.weights = packed.get(), c.output = output.get(), c.ghost_batch = c.examples / 2;
  const Buffer<float> scale(as_floats(random_values(2 * c.channels, Scalar::kFloat32, 3, 1, 0.2)));
  const Buffer<float> shift(as_floats(random_values(2 * c.channels, Scalar::kFloat32, 4)));
  if (prologue) {
    c.scale = scale.get(), c.shift = shift.get();
    const auto a = scale.download(), b = shift.download();
    for (std::size_t i = 0; i < input.size(); ++i) {
      const std::size_t at = i / (input.size() / 2) * c.channels + i % c.channels;
      input[i] = rounded(std::max(std::fma(static_cast<float>(input[i]), a[at], b[at]), 0.0f), bf16);
    }
  }
  std::unique_ptr<Parts> parts;
  int number = 0;
  if (statistics) {
    c.statistics = true;
    number = narrow_conv_parts(c);
    parts = std::make_unique<Parts>(static_cast<std::size_t>(2) * number, c.outputs);
    c.part_mean = parts->mean.get(), c.part_m2 = parts->m2.get(), c.part_count = parts->count.get();
  }
  const Values added = random_values(output_size(c), bf16, 6);
  const Tensor added_device(added, bf16);
  if (addend) c.addend = added_device.get();
  narrow_conv(c, nullptr);
  const std::string name = std::string(c.input_gradient ? "input gradient " : "forward ") + describe(c) +
                           (prologue ? " prologue" : "") + (statistics ? " statistics" : "") +
                           (addend ? " addend" : "");
  const Values y = output.download();
  Values wanted = reference(c, input, weight);
  for (std::size_t i = 0; addend && i < wanted.size(); ++i) wanted[i] += added[i];
  checker.compare(name, y, wanted, 4e-3);
  if (statistics)
    check_statistics(checker, c, {parts->mean.get(), parts->m2.get(), parts->count.get(), number}, y, name);
}

void time_one(NarrowConvolution c, bool statistics, bool prologue, bool addend = false) {
  const auto bf16 = Scalar::kBFloat16;
  const Tensor input(input_size(c), bf16), output(output_size(c), bf16);
  fill_random(input.get(), input.size, bf16, 1);
  const Buffer<float> weight(as_floats(random_values(static_cast<std::size_t>(c.outputs) * c.channels * 9, bf16, 2)));
  const Buffer<std::uint8_t> packed(packed_weight_bytes(c.channels, c.outputs));
  const PackedWeights item{weight.get(), packed.get(), c.channels, c.outputs, c.stride, c.input_gradient};
  pack_weights(&item, 1, nullptr);
  c.input = input.get(), c.weights = packed.get(), c.output = output.get(), c.ghost_batch = 128;
  const std::size_t values = static_cast<std::size_t>(c.examples / 128) * c.channels;
  const Buffer<float> scale(std::vector<float>(values, 1.0f)), shift(std::vector<float>(values, 0.1f));
  if (prologue) c.scale = scale.get(), c.shift = shift.get();
  const Parts parts(4096, c.outputs);
  c.statistics = statistics;
  const Tensor added(output_size(c), bf16);
  fill_random(added.get(), added.size, bf16, 3);
  if (addend) c.addend = added.get();
  if (statistics) c.part_mean = parts.mean.get(), c.part_m2 = parts.m2.get(), c.part_count = parts.count.get();
  const double flops = 18.0 * c.channels * c.outputs * c.examples * c.out_height() * c.out_width();
  print_row(std::string(c.input_gradient ? "input gradient" : "forward") + (prologue ? " prologue" : "") +
                (statistics ? " statistics" : "") + (addend ? " addend" : ""),
            describe(c), milliseconds([&](cudaStream_t s) { narrow_conv(c, s); }),
            2.0 * static_cast<double>(input.size + output.size * (addend ? 2 : 1)), flops);
}

}  // namespace

void check_narrow_conv(Checker& checker, bool small) {
  for (const bool statistics : {false, true}) {
    check_one(checker, conv(4, small ? 9 : 32, 16, 16, 1, false), statistics, false);
    check_one(checker, conv(6, 16, 32, 32, 1, false), statistics, false);
    check_one(checker, conv(10, 8, 64, 64, 1, false), statistics, false);
    check_one(checker, conv(4, 12, 16, 32, 2, false), statistics, false);
    check_one(checker, conv(6, 7, 32, 64, 2, false), statistics, false);
    check_one(checker, conv(4, 11, 3, 16, 1, false), statistics, false);
  }
  check_one(checker, conv(4, 20, 16, 16, 1, false), true, true);
  check_one(checker, conv(4, 8, 32, 32, 1, false), true, true);
  check_one(checker, conv(12, 5, 64, 64, 1, false), true, true);
  check_one(checker, conv(4, small ? 9 : 32, 16, 16, 1, true), false, false);
  check_one(checker, conv(6, 16, 32, 32, 1, true), false, false);
  check_one(checker, conv(10, 8, 64, 64, 1, true), false, false);
  check_one(checker, conv(4, 16, 16, 32, 2, true), false, false);
  check_one(checker, conv(6, 8, 32, 64, 2, true), false, false);
  check_one(checker, conv(6, 7, 32, 64, 2, true), false, false);
  check_one(checker, conv(4, 20, 16, 16, 1, true), false, false, true);
  check_one(checker, conv(6, 7, 32, 64, 2, true), false, false, true);
  check_one(checker, conv(10, 8, 64, 64, 1, true), false, false, true);
}

void time_narrow_conv(int n) {
  for (const bool statistics : {false, true}) {
    time_one(conv(n, 32, 16, 16, 1, false), statistics, false);
    time_one(conv(n, 32, 16, 32, 2, false), statistics, false);
    time_one(conv(n, 16, 32, 32, 1, false), statistics, false);
    time_one(conv(n, 16, 32, 64, 2, false), statistics, false);
    time_one(conv(n, 8, 64, 64, 1, false), statistics, false);
    time_one(conv(n, 32, 3, 16, 1, false), statistics, false);
  }
  time_one(conv(n, 32, 16, 16, 1, false), true, true);
  time_one(conv(n, 16, 32, 32, 1, false), true, true);
  time_one(conv(n, 8, 64, 64, 1, false), true, true);
  time_one(conv(n, 32, 16, 16, 1, true), false, false);
  time_one(conv(n, 32, 16, 32, 2, true), false, false);
  time_one(conv(n, 16, 32, 32, 1, true), false, false);
  time_one(conv(n, 16, 32, 64, 2, true), false, false);
  time_one(conv(n, 8, 64, 64, 1, true), false, false);
  time_one(conv(n, 32, 16, 16, 1, true), false, false, true);
  time_one(conv(n, 16, 32, 32, 1, true), false, false, true);
  time_one(conv(n, 8, 64, 64, 1, true), false, false, true);
}

}  // namespace covnoise::cuda::bench
