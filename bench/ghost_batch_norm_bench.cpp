// Ghost batch normalisation as one operator against a loop over slices through at::batch_norm, 32 slices, forward and
// backward. The two alternate in one run; `ratio` is the quotient of the medians, ours over theirs. Goal: at most 0.6.
#include "covnoise/core/threads.h"
#include "covnoise/ops/ghost_batch_norm.h"

#include <benchmark/benchmark.h>
#include <torch/types.h>

#include "support/alternate.h"
#include "support/run_benchmarks.h"

namespace {

constexpr std::int64_t kSlices = 32;
constexpr double kMomentum = 0.1, kEps = 1e-5;

struct Problem {
  explicit Problem(const benchmark::State& state)
      : ghost_batch(state.range(0)),
        x(torch::randn({kSlices * state.range(0), state.range(1), state.range(2), state.range(2)})),
        dy(torch::randn_like(x)),
        weight(torch::ones({state.range(1)})),
        bias(torch::zeros({state.range(1)})),
        mean(torch::zeros({state.range(1)})),
        var(torch::ones({state.range(1)})) {}
  std::int64_t ghost_batch;
  at::Tensor x, dy, weight, bias, mean, var;
};

void one_operator(Problem& p) {
  const covnoise::GhostNorm norm{p.ghost_batch, kMomentum, kEps, false};
  const auto [y, statistics] = covnoise::ghost_batch_norm(p.x, p.weight, p.bias, p.mean, p.var, norm);
  auto gradients = covnoise::ghost_batch_norm_backward(p.dy, p.x, {}, p.weight, statistics, norm, false, {});
  benchmark::DoNotOptimize(gradients);
}

void loop_over_slices(Problem& p) {
  std::vector<at::Tensor> outputs, gradients;
  std::vector<std::tuple<at::Tensor, at::Tensor, at::Tensor>> saved;
  for (const auto& slice : p.x.split(p.ghost_batch)) {
    saved.push_back(at::native_batch_norm(slice, p.weight, p.bias, p.mean, p.var, true, kMomentum, kEps));
    outputs.push_back(std::get<0>(saved.back()));
  }
  benchmark::DoNotOptimize(at::cat(outputs));
  outputs.clear();
  auto dweight = torch::zeros_like(p.weight);
  for (std::int64_t g = 0; g < kSlices; ++g) {
    const auto& [y, mean, rstd] = saved[static_cast<std::size_t>(g)];
    const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, g * p.ghost_batch, p.ghost_batch); };
    const auto result = at::native_batch_norm_backward(part(p.dy), part(p.x), p.weight, p.mean, p.var, mean, rstd, true,
                                                       kEps, {true, true, true});
    gradients.push_back(std::get<0>(result));
    dweight += std::get<1>(result);
  }
  benchmark::DoNotOptimize(at::cat(gradients));
}

void GhostBatchNorm(benchmark::State& state) {
  covnoise::set_threads(0);
  const torch::NoGradGuard no_grad;
  Problem p(state);
  covnoise::bench::alternate(
      state, [&] { one_operator(p); }, [&] { loop_over_slices(p); });
}
BENCHMARK(GhostBatchNorm)
    ->ArgNames({"ghost_batch", "channels", "size"})
    ->Args({32, 16, 32})
    ->Args({64, 16, 32})
    ->Args({128, 16, 32})
    ->Args({128, 32, 16})
    ->Args({128, 64, 8})
    ->Args({32, 512, 2})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

int main(int argc, char** argv) { return covnoise::bench::run_benchmarks(argc, argv); }
