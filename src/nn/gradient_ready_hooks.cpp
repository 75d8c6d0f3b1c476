#include "covnoise/nn/gradient_ready_hooks.h"

#include "covnoise/nn/flat_parameters.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace covnoise {
namespace {

class DoneHook final : public torch::autograd::FunctionPostHook {
 public:
  explicit DoneHook(std::function<void()> done) : done_(std::move(done)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    done_();
    return outputs;
  }

 private:
  std::function<void()> done_;
};

}  // namespace

GradientReadyHooks::GradientReadyHooks(const torch::nn::Module& module, const std::function<void(std::size_t)>& done) {
  for (const auto& [name, parameter] : trainable_parameters(module)) {
    const std::size_t number = hooks_.size();
    auto accumulator = torch::autograd::impl::grad_accumulator(parameter);
    const auto key = accumulator->add_post_hook(std::make_unique<DoneHook>([done, number] { done(number); }));
    hooks_.emplace_back(std::move(accumulator), key);
  }
}

GradientReadyHooks::~GradientReadyHooks() {
  for (const auto& [accumulator, key] : hooks_) accumulator->del_post_hook(key);
}

}  // namespace covnoise
