#include "cuda/convolution/narrow_conv.h"
#include "support.h"

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
         std::to_string(c.channels) + "->" + std::to_string(c.outputs) + (c.stride > 1 ? " s2" : "") +
         (c.scalar == Scalar::kFloat32 ? " tf32" : "");
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

void check_one(Checker& checker, NarrowConvolution c) {
  for (const Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat32}) {
    c.scalar = scalar;
    if (!narrow_conv_supports(c)) continue;
    const Values input = random_values(input_size(c), scalar, 1, 0.5);
    const Values weight = random_values(static_cast<std::size_t>(c.outputs) * c.channels * 9, scalar, 2, 0, 0.1);
    const Tensor input_device(input, scalar), output(output_size(c), scalar);
    const Buffer<float> weight_device(as_floats(weight));
    const Buffer<std::uint8_t> packed(packed_weight_bytes(c));
    pack_weights(c, weight_device.get(), packed.get(), nullptr);
    c.input = input_device.get(), c.weights = packed.get(), c.output = output.get();
    narrow_conv(c, nullptr);
    const std::string name = (c.input_gradient ? "input gradient " : "forward ") + describe(c);
    checker.compare(name, output.download(), reference(c, input, weight), scalar == Scalar::kBFloat16 ? 4e-3 : 1e-3);
  }
}

void time_one(NarrowConvolution c, Scalar scalar) {
  c.scalar = scalar;
  if (!narrow_conv_supports(c)) return;
  const Tensor input(input_size(c), scalar), output(output_size(c), scalar);
  fill_random(input.get(), input.size, scalar, 1);
  const Buffer<float> weight(as_floats(random_values(static_cast<std::size_t>(c.outputs) * c.channels * 9, scalar, 2)));
  const Buffer<std::uint8_t> packed(packed_weight_bytes(c));
  pack_weights(c, weight.get(), packed.get(), nullptr);
  c.input = input.get(), c.weights = packed.get(), c.output = output.get();
  const double flops = 18.0 * c.channels * c.outputs * c.examples * c.out_height() * c.out_width();
  print_row(c.input_gradient ? "input gradient" : "forward", describe(c),
            milliseconds([&](cudaStream_t s) { narrow_conv(c, s); }),
            static_cast<double>(bytes_of(scalar)) * static_cast<double>(input.size + output.size),
            flops * (scalar == Scalar::kBFloat16 ? 1 : 2));
}

}  // namespace

void check_narrow_conv(Checker& checker, bool small) {
  const int side = small ? 9 : 32;
  for (const bool input_gradient : {false, true})
    for (const auto& c : {conv(4, side, 16, 16, 1, input_gradient), conv(6, 16, 32, 32, 1, input_gradient),
                          conv(10, 8, 64, 64, 1, input_gradient), conv(12, 5, 64, 64, 1, input_gradient),
                          conv(4, 12, 16, 32, 2, input_gradient), conv(5, 7, 16, 32, 2, input_gradient),
                          conv(6, 8, 32, 64, 2, input_gradient), conv(6, 7, 32, 64, 2, input_gradient)})
      check_one(checker, c);
  check_one(checker, conv(4, 11, 3, 16, 1, false));
}

void time_narrow_conv(int n) {
  for (const Scalar scalar : {Scalar::kBFloat16, Scalar::kFloat32})
    for (const bool input_gradient : {false, true}) {
      time_one(conv(n, 32, 16, 16, 1, input_gradient), scalar);
      time_one(conv(n, 32, 16, 32, 2, input_gradient), scalar);
      time_one(conv(n, 16, 32, 32, 1, input_gradient), scalar);
      time_one(conv(n, 16, 32, 64, 2, input_gradient), scalar);
      time_one(conv(n, 8, 64, 64, 1, input_gradient), scalar);
      if (!input_gradient) time_one(conv(n, 32, 3, 16, 1, false), scalar);
    }
}

}  // namespace covnoise::cuda::bench
