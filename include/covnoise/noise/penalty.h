#pragma once
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"

#include <functional>
#include <vector>

namespace covnoise {

/// The ghost penalty: trains on L + (lambda/2) mean_j |g_j|^2, g_j the gradient of the mean loss L_j of group j, one of
/// the G = M/m groups of m = NoiseOptions::group examples of a large batch. It is the part of the implicit
/// regularisation by small batches that a large batch loses (Smith et al. 2021, Geiping et al. 2022, Novack et al.
/// 2023).
///
/// Its gradient, lambda mean_j H_j g_j, is estimated without weights of its own for each group. With a random sign
/// sigma_j = +-1 for each of them,
///
///   u = (1/sqrt G) sum_j sigma_j g_j,   L_sigma = (1/sqrt G) sum_j sigma_j L_j,
///   p = lambda |u| (grad L_sigma(theta + eps u/|u|) - u) / eps
///
/// where the mean of p over the signs is lambda mean_j H_j g_j + O(eps^2). u costs another backward pass in the step's
/// own gradient pass (GradientPass::GroupSigns), and p a second gradient pass, at the moved weights, of which only the
/// signed losses are needed. With NoiseOptions::penalty_every = k only the steps 0, k, 2k, ... have it, k times as
/// strong. Nothing here waits for a device.
class GhostPenalty {
 public:
  /// Refuses PyTorch's own dropout layers, which would drop other units in the second pass.
  GhostPenalty(const NoiseOptions& options, torch::nn::Module& module, FlatParameters& parameters);

  /// What the gradient pass of a step has to compute for it: signs of groups, or nothing, as in batches of
  /// NoiseOptions::small_batch and below. An Error if a larger batch is not a whole number of groups.
  GradientPass::GroupSigns signs(const StepContext& context) const;

  /// The results of one step, scalars on the network's device.
  struct Added {
    at::Tensor value;  ///< (lambda/2) |u|^2, whose mean over the signs is the penalty (lambda/2) mean_j |g_j|^2
    at::Tensor norm;   ///< |p|, of what was added to the gradient
  };
  /// Gives the signed_sum of a second pass over the same examples with these signs; undefined without examples.
  using SecondPass = std::function<at::Tensor(const GradientPass::GroupSigns& signs)>;
  /// Sums over the processes that share the batch, in place.
  using SumOverRanks = std::function<void(at::Tensor tensor)>;
  /// Adds p to the gradient of the parameters, in a step that has signs. `signed_sum` is that of the step's gradient
  /// pass; undefined without examples. During `second_pass` the network has other weights; after it, and if it throws,
  /// weights and buffers (running statistics) have the same bits as before.
  Added add(
      const StepContext& context, const at::Tensor& signed_sum, const SecondPass& second_pass,
      const SumOverRanks& sum_over_ranks = [](const at::Tensor&) {});

 private:
  NoiseOptions options_;
  torch::nn::Module& module_;
  FlatParameters& parameters_;
};

/// Refuses options of a penalty outside of their limits, and a batch that is not a whole number of its groups.
void check_penalty(const NoiseOptions& options, std::int64_t batch);

}  // namespace covnoise
