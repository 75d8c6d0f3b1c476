// Weight gradient with squares, and without, against LibTorch's plain layer, 256 images (1024 examples of a linear
// layer; COVNOISE_BENCH_BATCH: as many of both), all available processors. Each iteration runs all six products in
// turn; counters are the minimum time of each in milliseconds, and
//   exact, ghost   (forward + input gradient + ours) / (forward + input gradient + library's weight gradient)
//   plain          our weight gradient without squares / the library's; COVNOISE_BENCH_AVX2=1 DNNL_MAX_CPU_ISA=AVX2
//                  compares the two as on a processor without AVX-512
//   gflops         of ours with squares per example; products with padding count.
// On a busy machine, `taskset -c 0` measures one thread by its own processor time.
#include "covnoise/ops/weight_gradient.h"
#include "ops/weight_gradient/weight_gradient_cpu.h"
#include "support/clock.h"
#include "support/run_benchmarks.h"

#include <ATen/ATen.h>
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace {

constexpr std::int64_t kImages = 256, kLinearExamples = 1024, kGhostBatch = 128;

std::int64_t batch_of(std::int64_t otherwise) {
  const char* batch = std::getenv("COVNOISE_BENCH_BATCH");
  return batch == nullptr ? otherwise : std::atoll(batch);
}

covnoise::weight_gradient::InstructionSet instruction_set() {
  using namespace covnoise::weight_gradient;
  return std::getenv("COVNOISE_BENCH_AVX2") ? InstructionSet::kAvx2 : available_instruction_sets().back();
}

struct Layer {
  const char* name;
  std::int64_t channels, outputs, size, kernel, padding;  // size 0: a linear layer
  bool first = false;                                     // needs no input gradient
  std::int64_t stride = 1, groups = 1;
};

constexpr Layer kLayers[] = {
    {"resnet 16 channels, 32x32", 16, 16, 32, 3, 1},
    {"resnet 32 channels, 16x16", 32, 32, 16, 3, 1},
    {"resnet 64 channels, 8x8", 64, 64, 8, 3, 1},
    {"resnet first, 3 to 16, 32x32", 3, 16, 32, 3, 1, true},
    {"resnet 16 to 32, stride 2", 16, 32, 32, 3, 1, false, 2},
    {"resnet 32 to 64, stride 2", 32, 64, 16, 3, 1, false, 2},
    {"64 channels, 1x1 kernel, 16x16", 64, 64, 16, 1, 0},
    {"64 channels in 4 groups, 16x16", 64, 64, 16, 3, 1, false, 1, 4},
    {"64 channels in 64 groups, 16x16", 64, 64, 16, 3, 1, false, 1, 64},
    {"alexnet first, 3 to 32, 32x32", 3, 32, 32, 3, 1, true},
    {"alexnet 32 to 96, 16x16", 32, 96, 16, 3, 1},
    {"alexnet 96 to 192, 8x8", 96, 192, 8, 3, 1},
    {"alexnet 192 to 128, 8x8", 192, 128, 8, 3, 1},
    {"c1 first, 3 to 64, 5x5, 32x32", 3, 64, 32, 5, 2, true},
    {"c1 second, 64 channels, 5x5, 15x15", 64, 64, 15, 5, 2},
    {"vgg first, 3 to 64, 32x32", 3, 64, 32, 3, 1, true},
    {"vgg 64 channels, 32x32", 64, 64, 32, 3, 1},
    {"vgg 128 to 256, 8x8", 128, 256, 8, 3, 1},
    {"vgg 512 channels, 4x4", 512, 512, 4, 3, 1},
    {"vgg 512 channels, 2x2", 512, 512, 2, 3, 1},
    {"lenet first, 1 to 20, 5x5, 28x28", 1, 20, 28, 5, 0, true},
    {"lenet second, 20 to 50, 5x5, 12x12", 20, 50, 12, 5, 0},
    {"mlp 784 to 512", 784, 512, 0, 1, 0, true},
    {"mlp 512 to 512", 512, 512, 0, 1, 0},
    {"mlp 512 to 10", 512, 10, 0, 1, 0},
    {"lenet 800 to 500", 800, 500, 0, 1, 0},
};

struct Products {
  const Layer& layer;
  at::Tensor x, weight, dz, sums_of_squares;
  std::vector<std::int64_t> one{1, 1}, stride, padding;

  explicit Products(const Layer& l) : layer(l), stride{l.stride, l.stride}, padding{l.padding, l.padding} {
    x = l.size > 0 ? at::randn({batch_of(kImages), l.channels, l.size, l.size})
                   : at::randn({batch_of(kLinearExamples), l.channels});
    weight = l.size > 0 ? at::randn({l.outputs, l.channels / l.groups, l.kernel, l.kernel})
                        : at::randn({l.outputs, l.channels});
    dz = at::randn_like(forward());
    sums_of_squares = at::zeros_like(weight);
  }
  at::Tensor forward() const {
    if (layer.size == 0) return x.mm(weight.t());
    return at::convolution(x, weight, {}, stride, padding, one, false, {0, 0}, layer.groups);
  }
  void backward(bool input, bool gradient) const {
    at::convolution_backward(dz, x, weight, c10::nullopt, stride, padding, one, false, {0, 0}, layer.groups,
                             {input, gradient, false});
  }
  void input_gradient() const {
    if (layer.first) return;
    layer.size == 0 ? static_cast<void>(dz.mm(weight)) : backward(true, false);
  }
  void weight_gradient() const { layer.size == 0 ? static_cast<void>(dz.t().mm(x)) : backward(false, true); }
  void squares(std::int64_t group) {
    if (layer.size == 0) {
      covnoise::linear_weight_gradient_squares(x, dz, sums_of_squares, group);
      return;
    }
    covnoise::conv2d_weight_gradient_squares(x, dz, sums_of_squares, weight.sizes(), stride, padding, one, layer.groups,
                                             group, false);
  }
  void plain() const {
    using namespace covnoise::weight_gradient;
    const Layer& l = layer;
    const std::int64_t size = std::max<std::int64_t>(1, l.size), out = l.size > 0 ? dz.size(2) : 1;
    const Convolution convolution{x.size(0),
                                  l.channels / l.groups,
                                  l.outputs / l.groups,
                                  l.groups,
                                  size,
                                  size,
                                  out,
                                  out,
                                  l.kernel,
                                  l.kernel,
                                  l.stride,
                                  l.stride,
                                  l.padding,
                                  l.padding,
                                  1,
                                  1};
    gradient(convolution, x, dz, instruction_set());
  }
  double gflop() const { return 2e-9 * dz.numel() * weight.numel() / layer.outputs; }
};

template <typename Function>
void keep_least(double& least, const Function& function) {
  const double start = covnoise::bench::seconds();
  function();
  least = std::min(least, 1e3 * (covnoise::bench::seconds() - start));
}

void run_layer(benchmark::State& state, const Layer& layer) {
  Products products(layer);
  std::array<double, 6> least;
  least.fill(1e9);
  for (auto _ : state) {
    keep_least(least[0], [&] { products.forward(); });
    keep_least(least[1], [&] { products.input_gradient(); });
    keep_least(least[2], [&] { products.weight_gradient(); });
    keep_least(least[3], [&] { products.squares(1); });
    keep_least(least[4], [&] { products.squares(std::min(kGhostBatch, products.x.size(0))); });
    keep_least(least[5], [&] { products.plain(); });
  }
  const char* const names[] = {"1_forward", "2_input", "3_weight", "4_exact", "5_ghost", "6_plain"};
  for (int i = 0; i < 6; ++i) state.counters[names[i]] = least[i];
  const double rest = least[0] + least[1];
  state.counters["exact"] = (rest + least[3]) / (rest + least[2]);
  state.counters["ghost"] = (rest + least[4]) / (rest + least[2]);
  state.counters["plain"] = least[5] / least[2];
  state.counters["gflops"] = products.gflop() / least[3] * 1e3;
}

void register_layers() {
  for (const Layer& layer : kLayers)
    benchmark::RegisterBenchmark(layer.name, [&layer](benchmark::State& state) { run_layer(state, layer); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->Iterations(10);
}

}  // namespace

int main(int argc, char** argv) { return covnoise::bench::run_benchmarks(argc, argv, register_layers); }
