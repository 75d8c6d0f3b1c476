#include "covnoise/noise/penalty.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/dropout.h"
#include "covnoise/nn/internal/other_weights.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace covnoise {

void check_penalty(const NoiseOptions& options, std::int64_t batch) {
  require(std::isfinite(options.penalty) && options.penalty >= 0,
          fmt::format("noise.penalty = {:g} must be at least 0", options.penalty));
  if (options.penalty == 0) return;
  require(
      options.placement != Placement::kWeights,
      "noise.penalty compares gradients at the weights themselves: choose another noise.placement than \"weights\"");
  require(options.penalty_every >= 1,
          fmt::format("noise.penalty_every = {} must be at least 1", options.penalty_every));
  require(std::isfinite(options.penalty_step) && options.penalty_step > 0,
          fmt::format("noise.penalty_step = {:g} must be above 0", options.penalty_step));
  if (batch <= options.small_batch) return;  // has none
  const std::int64_t group = options.estimator_group();
  require(group >= 1 && batch >= 1 && batch % group == 0,
          fmt::format("noise.penalty needs whole groups: a batch of {} examples is not a multiple of {}, the group "
                      "(noise.group, by default noise.small_batch); change one of them",
                      batch, group));
}

GhostPenalty::GhostPenalty(const NoiseOptions& options, torch::nn::Module& module, FlatParameters& parameters)
    : options_(options), module_(module), parameters_(parameters) {
  if (options.penalty != 0) refuse_foreign_dropout(module, "noise.penalty");
}

GradientPass::GroupSigns GhostPenalty::signs(const StepContext& context) const {
  check_penalty(options_, context.batch);
  const bool large = context.batch > options_.small_batch;  // a small batch loses nothing that a penalty would replace
  if (options_.penalty == 0 || !large || context.step % options_.penalty_every != 0) return {};
  return {options_.estimator_group(), /*alone=*/false};
}

GhostPenalty::Added GhostPenalty::add(const StepContext& context, const at::Tensor& signed_sum,
                                      const SecondPass& second_pass, const SumOverRanks& sum_over_ranks) {
  const torch::NoGradGuard no_grad;
  GradientPass::GroupSigns signs = this->signs(context);
  TORCH_CHECK(signs.size > 0, "step ", context.step, " has no penalty");
  signs.alone = true;
  // sum_j sigma_j g_j / sqrt G, from the sum over the examples.
  const double groups = static_cast<double>(context.batch) / static_cast<double>(signs.size);
  const double factor = std::sqrt(groups) / static_cast<double>(context.batch);
  const auto of_all_ranks = [&](const at::Tensor& own) {
    auto sum = own.defined() ? own.mul(factor) : parameters_.zeros();
    sum_over_ranks(sum);
    return sum;
  };
  const auto u = of_all_ranks(signed_sum);
  const auto norm = u.norm();
  at::Tensor moved;
  {
    // A gradient of zero has no direction: nothing is moved, and nothing added.
    const auto length = norm.clamp_min(std::numeric_limits<float>::min());
    const OtherWeights there(parameters_, parameters_.values() + u * (options_.penalty_step / length),
                             module_.buffers());
    const torch::AutoGradMode with_gradients(true);
    moved = second_pass(signs);
  }
  const double weight = options_.penalty * static_cast<double>(options_.penalty_every) / options_.penalty_step;
  const auto added = (of_all_ranks(moved) - u).mul_(norm * weight);
  parameters_.gradient().add_(added);
  return {norm.to(at::kDouble).square().mul_(options_.penalty / 2), added.norm()};
}

}  // namespace covnoise
