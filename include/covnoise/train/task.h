#pragma once
#include "covnoise/noise/gradient_pass.h"

#include <functional>
#include <memory>
#include <utility>

namespace covnoise {

/// A network, examples and a loss of your own, for a Trainer. `make_task` makes one from a network's type and a struct
/// of tensors.
struct Task {
  /// Makes the network, on the CPU. PyTorch's generator has been seeded with the run's seed.
  std::function<std::shared_ptr<torch::nn::Module>()> module;
  /// One loss for each example, as for a GradientPass.
  std::function<Losses(torch::nn::Module& module, const GradientPass::Examples& examples)> loss;
  GradientPass::Examples train, test;  ///< the whole sets: tensors [N, ...] of examples
  /// The noise structure; empty: the one that noise.structure names.
  std::function<std::unique_ptr<NoiseStructure>()> structure;
};

/// `make` returns a std::shared_ptr to the network; `loss` takes the network and a Batch:
///
///   const auto task = make_task<Batch>([] { return std::make_shared<Network>(); }, loss, train, test);
template <class Batch, class Make, class Loss>
Task make_task(Make make, Loss loss, const Batch& train, const Batch& test) {
  using Network = typename decltype(make())::element_type;
  Task task;
  task.module = std::move(make);
  task.loss = [loss = std::move(loss)](torch::nn::Module& module, const GradientPass::Examples& examples) -> Losses {
    return loss(dynamic_cast<Network&>(module), struct_of<Batch>(examples));
  };
  task.train = tensors_of(train);
  task.test = tensors_of(test);
  return task;
}

}  // namespace covnoise
