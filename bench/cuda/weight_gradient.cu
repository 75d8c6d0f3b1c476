#include "cuda/weight_gradient/conv_weight_gradient.h"
#include "support.h"

namespace covnoise::cuda::bench {
namespace {

struct Reference {
  Values gradient, squares, bias, bias_squares;
};

/// dz [N, Ho, Wo, O], x [N, H, W, C]: example by example.
Reference reference(const Convolution& c, const Values& x, const Values& dz, GradientSquares squares_of,
                    int per_group) {
  const int ho = c.out_height(), wo = c.out_width(), cg = c.channels / c.groups, og = c.outputs / c.groups;
  const std::size_t weights = c.weights();
  Reference r{Values(weights), Values(weights), Values(c.outputs), Values(c.outputs)};
  Values group(weights), bias(c.outputs);
  for (int n = 0; n < c.examples; ++n) {
    for (int i = 0; i < ho; ++i)
      for (int j = 0; j < wo; ++j) {
        const double* d = &dz[((static_cast<std::size_t>(n) * ho + i) * wo + j) * c.outputs];
        for (int o = 0; o < c.outputs; ++o) {
          bias[o] += d[o];
          if (squares_of == GradientSquares::kSpatial) r.bias_squares[o] += d[o] * d[o];
        }
        for (int kh = 0; kh < c.kernel_height; ++kh)
          for (int kw = 0; kw < c.kernel_width; ++kw) {
            const int y = i * c.stride_height + kh * c.dilation_height - c.padding_height;
            const int z = j * c.stride_width + kw * c.dilation_width - c.padding_width;
            if (y < 0 || y >= c.height || z < 0 || z >= c.width) continue;
            const double* a = &x[((static_cast<std::size_t>(n) * c.height + y) * c.width + z) * c.channels];
            for (int o = 0; o < c.outputs; ++o)
              for (int k = 0; k < cg; ++k) {
                const double value = a[o / og * cg + k] * d[o];
                const std::size_t at =
                    ((static_cast<std::size_t>(o) * cg + k) * c.kernel_height + kh) * c.kernel_width + kw;
                group[at] += value;
                if (squares_of == GradientSquares::kSpatial) r.squares[at] += value * value;
              }
          }
      }
    if ((n + 1) % per_group != 0 && n + 1 != c.examples) continue;
    const auto flush = [&](Values& values, Values& sums, Values& squares) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        sums[i] += values[i];
        if (squares_of == GradientSquares::kGroups) squares[i] += values[i] * values[i];
        values[i] = 0;
      }
    };
    flush(group, r.gradient, r.squares);
    flush(bias, r.bias, r.bias_squares);
  }
  return r;
}

const char* name_of(GradientSquares squares) {
  return squares == GradientSquares::kNone ? "plain" : squares == GradientSquares::kGroups ? "groups" : "spatial";
}

std::string describe(const Convolution& c) {
  return std::to_string(c.examples) + "x" + std::to_string(c.height) + "x" + std::to_string(c.width) + " " +
         std::to_string(c.channels) + "->" + std::to_string(c.outputs) + " k" + std::to_string(c.kernel_height) +
         (c.stride_height > 1 ? " s" + std::to_string(c.stride_height) : "");
}

void check_one(Checker& checker, const Convolution& c, Scalar scalar, bool precise, GradientSquares squares_of,
               int per_group) {
  const std::size_t x_size = static_cast<std::size_t>(c.examples) * c.height * c.width * c.channels;
  const std::size_t dz_size = static_cast<std::size_t>(c.examples) * c.out_height() * c.out_width() * c.outputs;
  const Values x = random_values(x_size, scalar, 1, 0.3), dz = random_values(dz_size, scalar, 2);
  const Tensor x_device(x, scalar), dz_device(dz, scalar);
  WeightGradient call;
  call.shape = c, call.scalar = scalar, call.precise = precise;
  call.squares_of = squares_of, call.examples_per_group = per_group;
  call.x = x_device.get(), call.dz = dz_device.get();
  const Reference wanted = reference(c, x, dz, squares_of, per_group);
  const Buffer<std::uint8_t> workspace(weight_gradient_workspace(call));
  check(cudaMemset(workspace.get(), 0xff, weight_gradient_workspace(call)), "poison");
  const Buffer<float> gradient(std::vector<float>(c.weights(), 2.0f)), squares(std::vector<float>(c.weights(), 3.0f));
  call.workspace = workspace.get(), call.gradient = gradient.get(), call.squares = squares.get();
  weight_gradient(call, nullptr);
  const Values got = as_values(gradient.download());
  Values got_squares = as_values(squares.download());
  for (double& value : got_squares) value -= 3;
  const bool bf16 = scalar == Scalar::kBFloat16;
  const std::string name = "weight gradient " + describe(c) +
                           (bf16      ? " bf16 "
                            : precise ? " fp32 "
                                      : " tf32 ") +
                           name_of(squares_of) + " " + std::to_string(per_group);
  const double tolerance = bf16 ? 1e-5 : precise ? 5e-5 : 1e-3;
  checker.compare(name, got, wanted.gradient, tolerance);
  if (squares_of == GradientSquares::kNone) return;
  const bool rounds = squares_of == GradientSquares::kSpatial && bf16;
  checker.compare(name + ", squares", got_squares, wanted.squares, rounds ? 5e-3 : tolerance);
  const Buffer<float> bias(std::vector<float>(c.outputs)), bias_squares(std::vector<float>(c.outputs));
  const int positions = c.out_height() * c.out_width();
  bias_gradient(dz_device.get(), scalar, c.examples * positions, c.outputs,
                squares_of == GradientSquares::kSpatial ? 1 : per_group * positions, bias.get(), bias_squares.get(),
                nullptr);
  checker.compare(name + ", bias", as_values(bias.download()), wanted.bias, 1e-5);
  checker.compare(name + ", bias squares", as_values(bias_squares.download()), wanted.bias_squares, 1e-5);
}

Convolution conv(int n, int side, int c, int o, int k, int stride = 1, int padding = -1) {
  Convolution shape;
  shape.examples = n, shape.height = side, shape.width = side, shape.channels = c, shape.outputs = o;
  shape.kernel_height = shape.kernel_width = k, shape.stride_height = shape.stride_width = stride;
  shape.padding_height = shape.padding_width = padding < 0 ? k / 2 : padding;
  return shape;
}

void time_one(const Convolution& c, Scalar scalar, GradientSquares squares_of, int per_group, const char* label,
              int stage_bytes = 0, bool precise = false) {
  const std::size_t x_size = static_cast<std::size_t>(c.examples) * c.height * c.width * c.channels;
  const std::size_t dz_size = static_cast<std::size_t>(c.examples) * c.out_height() * c.out_width() * c.outputs;
  const Buffer<std::uint8_t> x(x_size * bytes_of(scalar)), dz(dz_size * bytes_of(scalar));
  fill_random(x.get(), x_size, scalar, 1);
  fill_random(dz.get(), dz_size, scalar, 2);
  WeightGradient call;
  call.shape = c, call.scalar = scalar, call.squares_of = squares_of, call.examples_per_group = per_group;
  call.precise = precise, call.stage_bytes = stage_bytes;
  const Buffer<float> gradient(std::vector<float>(c.weights())), squares(std::vector<float>(c.weights()));
  const Buffer<std::uint8_t> workspace(weight_gradient_workspace(call));
  call.x = x.get(), call.dz = dz.get(), call.workspace = workspace.get();
  call.gradient = gradient.get(), call.squares = squares.get();
  const double flops =
      2.0 * static_cast<double>(dz_size) * c.channels * c.kernel() * (squares_of == GradientSquares::kSpatial ? 2 : 1);
  const double rate = scalar == Scalar::kBFloat16 ? 1 : precise ? 6 : 2;  // tf32 has half the rate
  print_row(std::string("weight gradient ") + label, describe(c),
            milliseconds([&](cudaStream_t s) { weight_gradient(call, s); }),
            static_cast<double>(x_size + dz_size) * bytes_of(scalar), flops * rate);
}

}  // namespace

void check_weight_gradient(Checker& checker, bool small) {
  using S = GradientSquares;
  const int n = small ? 4 : 12;
  std::vector<Convolution> shapes = {conv(n, small ? 9 : 32, 16, 16, 3), conv(n, 8, 32, 32, 3),
                                     conv(n, 8, 16, 32, 3, 2),           conv(n, 5, 64, 64, 3),
                                     conv(n, 8, 20, 50, 5, 1, 0),        conv(n, 4, 64, 32, 1)};
  if (!small)
    for (const Convolution& shape :
         {conv(n, 32, 3, 16, 3), conv(n, 32, 16, 32, 3, 2), conv(n, 16, 32, 32, 3), conv(n, 16, 32, 64, 3, 2),
          conv(n, 8, 64, 64, 3), conv(n, 4, 128, 192, 3), conv(n, 2, 128, 128, 3), conv(n, 28, 1, 20, 5, 1, 0),
          conv(n, 40, 24, 16, 3), conv(130, 1, 100, 70, 1, 1, 0), conv(n, 7, 96, 32, 1, 2), conv(n, 8, 64, 128, 3),
          conv(8, 4, 128, 192, 3), conv(32, 2, 256, 128, 3), conv(2, 16, 64, 64, 3), conv(2, 32, 64, 136, 3),
          conv(2, 28, 64, 64, 5, 1, 0), conv(256, 1, 784, 512, 1, 1, 0)})
      shapes.push_back(shape);
  Convolution grouped = conv(n, 6, 8, 12, 3);
  grouped.groups = 4, grouped.dilation_width = 2, grouped.padding_width = 2;
  shapes.push_back(grouped);
  for (const Convolution& shape : shapes) {
    const int pair = shape.examples / 2;
    check_one(checker, shape, Scalar::kBFloat16, false, S::kNone, 1);
    check_one(checker, shape, Scalar::kBFloat16, false, S::kGroups, 1);
    check_one(checker, shape, Scalar::kBFloat16, false, S::kGroups, pair);
    check_one(checker, shape, Scalar::kBFloat16, false, S::kSpatial, 1);
    check_one(checker, shape, Scalar::kFloat32, false, S::kGroups, 1);
    check_one(checker, shape, Scalar::kFloat32, true, S::kGroups, pair);
    check_one(checker, shape, Scalar::kFloat32, true, S::kSpatial, 1);
  }
}

void time_weight_gradient(int n) {
  using S = GradientSquares;
  const auto bf16 = Scalar::kBFloat16;
  for (const Convolution& shape : {conv(n, 32, 16, 16, 3), conv(n, 32, 16, 32, 3, 2), conv(n, 16, 32, 32, 3),
                                   conv(n, 16, 32, 64, 3, 2), conv(n, 8, 64, 64, 3), conv(n, 32, 3, 16, 3)}) {
    time_one(shape, bf16, S::kNone, 1, "bf16 plain");
    time_one(shape, bf16, S::kGroups, 128, "bf16 ghost");
    time_one(shape, bf16, S::kGroups, 1, "bf16 exact");
  }
  for (const int kilobytes : {12, 16, 28, 36, 54})
    time_one(conv(n, 32, 16, 16, 3), bf16, S::kGroups, 128, ("ghost, stage " + std::to_string(kilobytes) + "K").c_str(),
             kilobytes << 10);
  for (const int kilobytes : {28, 80, 108})
    for (const auto& shape : {conv(n, 16, 32, 32, 3), conv(n, 8, 64, 64, 3)})
      time_one(shape, bf16, S::kGroups, 1, ("exact, stage " + std::to_string(kilobytes) + "K").c_str(),
               kilobytes << 10);
  for (const Convolution& shape :
       {conv(n, 32, 64, 64, 3), conv(n, 16, 64, 128, 3), conv(n, 16, 128, 128, 3), conv(n, 8, 256, 256, 3),
        conv(n, 4, 512, 512, 3), conv(n, 2, 512, 512, 3), conv(n, 28, 1, 20, 5, 1, 0), conv(n, 12, 20, 50, 5, 1, 0)}) {
    time_one(shape, bf16, S::kNone, 1, "bf16 plain");
    time_one(shape, bf16, S::kGroups, 128, "bf16 ghost");
    time_one(shape, bf16, S::kGroups, 1, "bf16 exact");
  }
  for (const Convolution& shape : {conv(n, 32, 16, 16, 3), conv(n, 8, 64, 64, 3)}) {
    time_one(shape, Scalar::kFloat32, S::kGroups, 128, "tf32 ghost");
    time_one(shape, Scalar::kFloat32, S::kGroups, 1, "tf32 exact");
    time_one(shape, Scalar::kFloat32, S::kGroups, 1, "fp32 exact", 0, true);
  }
  for (const Convolution& shape :
       {linear_shape(n, 2048, 2048), linear_shape(n, 784, 512), linear_shape(n, 512, 512), linear_shape(n, 64, 10)}) {
    time_one(shape, bf16, S::kNone, 1, "linear plain");
    time_one(shape, bf16, S::kSpatial, 1, "linear exact");
    time_one(shape, bf16, S::kGroups, 128, "linear ghost");
  }
}

}  // namespace covnoise::cuda::bench
