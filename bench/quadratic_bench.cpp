// The quadratic study: 4096 trajectories in dimension 50, steps of the theorem. Its products as a fraction of the
// highest rate of products measured in the same run, alternately, on all processors. A step needs one product
// [50, 100] x [100, 4096] and 204,800 normals; `ten_thousand_steps_s` is 10,000 / kSteps times what was measured.
#include "covnoise/theory/matrix.h"
#include "covnoise/theory/quadratic.h"
#include "support/alternate.h"
#include "support/run_benchmarks.h"

namespace covnoise {
namespace {

constexpr std::int64_t kDimension = 50, kTrajectories = 4096, kSteps = 100, kSide = 1536;

void quadratic_study(benchmark::State& state, at::ScalarType dtype) {
  using namespace theory;
  const Quadratic quadratic = make_quadratic(rotated_diagonal(parse_spectrum("log:0.01:1", kDimension), 1));
  const at::Tensor factor = noise_factor("full", quadratic), start = normals({kDimension}, 1, 1);
  const StepSizes steps = StepSizes::theorem(quadratic, 1 / quadratic.lambda_max());
  const SimulationOptions options{kTrajectories, 1, {kSteps}, dtype};
  const at::Tensor a = at::randn({kSide, kSide}, dtype), b = at::randn({kSide, kSide}, dtype);
  at::Tensor product = at::empty({kSide, kSide}, dtype);
  const double ours = bench::alternate(
      state, [&] { benchmark::DoNotOptimize(simulate_losses(quadratic, factor, steps, start, options)); },
      [&] { at::mm_out(product, a, b); });
  const double flops = 2.0 * kDimension * 2 * kDimension * kTrajectories * kSteps;
  const double peak = 2.0 * kSide * kSide * kSide / (state.counters["theirs_ms"] * 1e-3);
  state.counters["gflops"] = flops / ours * 1e-9;
  state.counters["peak_gflops"] = peak * 1e-9;
  state.counters["fraction_of_peak"] = flops / ours / peak;
  state.counters["ten_thousand_steps_s"] = ours * 10000 / kSteps;
}

BENCHMARK_CAPTURE(quadratic_study, float64, at::kDouble)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(quadratic_study, float32, at::kFloat)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace covnoise

int main(int argc, char** argv) { return covnoise::bench::run_benchmarks(argc, argv); }
