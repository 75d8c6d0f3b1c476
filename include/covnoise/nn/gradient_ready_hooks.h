#pragma once
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace covnoise {

/// Tells, while a backward pass is still running, which parameters it is through with: their gradients are in place,
/// and so is what their layers accounted for, because a layer's backward comes before its gradients are added up.
/// Passes that give gradients away instead of adding them up (autograd::grad) tell nothing.
class GradientReadyHooks {
 public:
  /// `done` gets a parameter's number in the order of named_parameters(), on the thread of the backward pass, out of
  /// which its exceptions come. On a GPU gradients are added up, and `done` called, in the stream in which the watch is
  /// made: it has to be that of the passes.
  GradientReadyHooks(const torch::nn::Module& module, const std::function<void(std::size_t parameter)>& done);
  ~GradientReadyHooks();
  GradientReadyHooks(const GradientReadyHooks&) = delete;
  GradientReadyHooks& operator=(const GradientReadyHooks&) = delete;

 private:
  /// What adds up a parameter's gradient, and our hook behind it. A parameter alone does not keep it alive.
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_;
};

}  // namespace covnoise
