// One training step (forward, backward on the sum of the losses, plain SGD) of the zoo's networks, against the same
// network with LibTorch's own layers. The two alternate in one run; `ratio` is the quotient of the medians, ours
// over theirs. Goal: at most 1.05. sb: 128 images, statistics over all. lb: a micro-batch of 512 images in ghost
// batches of 128.
#include "covnoise/core/threads.h"
#include "covnoise/nn/model_zoo.h"

#include "support/alternate.h"
#include "support/libtorch_models.h"
#include "support/run_benchmarks.h"

namespace {

using covnoise::InputShape;

template <class Network>
void step(Network& network, std::vector<at::Tensor>& parameters, const at::Tensor& images, const at::Tensor& labels) {
  const auto options = torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum);
  torch::nn::functional::cross_entropy(network->forward(images), labels, options).backward();
  const torch::NoGradGuard no_grad;
  for (auto& parameter : parameters) {
    parameter.add_(parameter.grad(), -1e-7);
    parameter.mutable_grad().zero_();
  }
}

void training_step(benchmark::State& state, const std::string& name, std::int64_t batch, std::int64_t ghost_batch) {
  torch::manual_seed(1);
  const bool gray = name == "mlp" || name == "lenet";
  const InputShape input = gray ? InputShape{1, 28, 28} : InputShape{3, 32, 32};
  auto ours = covnoise::make_model(name, {input, 10, ghost_batch});
  auto theirs = covnoise::bench::libtorch_model(name);
  auto our_parameters = ours->parameters(), their_parameters = theirs->parameters();
  const auto images = torch::randn({batch, input.channels, input.height, input.width});
  const auto labels = torch::randint(10, {batch});
  const double seconds = covnoise::bench::alternate(
      state, [&] { step(ours, our_parameters, images, labels); },
      [&] { step(theirs, their_parameters, images, labels); });
  state.counters["images_per_s"] = static_cast<double>(batch) / seconds;
}

void register_steps() {
  for (const std::string name : {"mlp", "lenet", "alexnet", "resnet20", "resnet44", "vgg16"})
    for (const bool large : {false, true})
      benchmark::RegisterBenchmark((name + (large ? "/lb" : "/sb")).c_str(), training_step, name, large ? 512 : 128,
                                   128)
          ->UseManualTime()
          ->Unit(benchmark::kMillisecond);
}

}  // namespace

int main(int argc, char** argv) { return covnoise::bench::run_benchmarks(argc, argv, register_steps); }
