// Images per second of Loader::images over the batches of a shuffled epoch, on all processors.
#include "covnoise/data/loader.h"
#include "support/run_benchmarks.h"

#include <benchmark/benchmark.h>

namespace covnoise {
namespace {

void load_epochs(benchmark::State& state, std::int64_t channels, std::int64_t side) {
  constexpr std::int64_t kExamples = 20000;
  const std::int64_t batch = state.range(0);
  const Dataset dataset{at::randint(0, 256, {kExamples, channels, side, side}, at::kByte),
                        at::zeros({kExamples}, at::kLong)};
  LoaderOptions options;
  options.augment = state.range(1) != 0;
  options.mean.assign(static_cast<std::size_t>(channels), 0.5);
  options.std.assign(static_cast<std::size_t>(channels), 0.25);
  const Loader loader(dataset, options);
  std::int64_t epoch = 0, begin = 0;
  at::Tensor order = loader.order(epoch);
  for (auto _ : state) {
    benchmark::DoNotOptimize(loader.images(order.narrow(0, begin, batch), epoch).data_ptr());
    begin += batch;
    if (begin + batch > kExamples) {
      order = loader.order(++epoch);  // part of the cost of loading
      begin = 0;
    }
  }
  state.SetItemsProcessed(state.iterations() * batch);
}

void arguments(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"batch", "augment"})->ArgsProduct({{128, 4096}, {0, 1}})->UseRealTime();
}

BENCHMARK_CAPTURE(load_epochs, cifar, 3, 32)->Apply(arguments);
BENCHMARK_CAPTURE(load_epochs, mnist, 1, 28)->Apply(arguments);

}  // namespace
}  // namespace covnoise

int main(int argc, char** argv) { return covnoise::bench::run_benchmarks(argc, argv); }
