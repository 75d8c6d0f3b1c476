#pragma once
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace covnoise {

/// Reports, while a backward pass is still running, which parameters are finished: their gradients are in place, and so
/// are their layers' statistics, because a layer's backward precedes the accumulation of its gradients. Passes that
/// return gradients instead of accumulating them (autograd::grad) report nothing.
class GradientReadyHooks {
 public:
  /// `done` gets the index of a parameter in trainable_parameters(). It is called on the thread of the backward pass,
  /// which passes its exceptions on. On a GPU gradients are accumulated, and `done` is called, in the stream that is
  /// current when the hooks are made: it must be the stream of the passes.
  GradientReadyHooks(const torch::nn::Module& module, const std::function<void(std::size_t parameter)>& done);
  ~GradientReadyHooks();
  GradientReadyHooks(const GradientReadyHooks&) = delete;
  GradientReadyHooks& operator=(const GradientReadyHooks&) = delete;

 private:
  /// The node that accumulates a parameter's gradient, which the parameter alone does not keep alive, and our hook on
  /// it.
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_;
};

}  // namespace covnoise
