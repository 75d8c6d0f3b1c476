// A product with the Hessian of the mean loss relative to one gradient (forward and backward). Goal: at most 2.5.
// `kept`: the graph of the first derivatives is reused from the previous product; `anew`: it is rebuilt.
#include "covnoise/analysis/hessian.h"
#include "covnoise/nn/initialize.h"
#include "covnoise/nn/loss.h"

#include "support/alternate.h"
#include "support/run_benchmarks.h"

#include <torch/autograd.h>

namespace {

using covnoise::HessianProduct;

void product(benchmark::State& state, const std::string& name, bool kept) {
  const bool gray = name == "mlp" || name == "lenet";
  const covnoise::InputShape input = gray ? covnoise::InputShape{1, 28, 28} : covnoise::InputShape{3, 32, 32};
  auto model = covnoise::make_model(name, {input, 10, 0});
  covnoise::initialize(*model, 1);
  model->eval();
  const auto parameters = covnoise::fold_batch_norm(*model);
  const HessianProduct::Slice slice{torch::randn({250, input.channels, input.height, input.width}),
                                    torch::randint(10, {250}, torch::kInt64)};
  const auto loss = [&](const HessianProduct::Slice& s) {
    return covnoise::cross_entropy_losses(model->forward(s.images), s.labels).sum();
  };
  HessianProduct hessian(parameters, {slice}, loss, kept ? std::int64_t{1} << 36 : 0);
  const auto v = torch::randn({hessian.dimension()});
  covnoise::bench::alternate(
      state, [&] { benchmark::DoNotOptimize(hessian(v)); },
      [&] { benchmark::DoNotOptimize(torch::autograd::grad({loss(slice)}, parameters)); });
}

void register_products() {
  for (const std::string name : {"mlp", "lenet", "alexnet", "resnet20", "vgg11"})
    for (const bool kept : {true, false})
      benchmark::RegisterBenchmark((name + (kept ? "/kept" : "/anew")).c_str(), product, name, kept)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) { return covnoise::bench::run_benchmarks(argc, argv, register_products); }
