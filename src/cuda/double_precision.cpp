#include "cuda/double_precision.h"

#include "covnoise/ops/internal/group_squares.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace covnoise::cuda::double_precision {
namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 27;  // 1 GiB of per-example gradients

/// One number per direction.
std::array<std::int64_t, 2> pair_of(at::IntArrayRef values) { return {values.front(), values.back()}; }

/// Input patches of group `group` [M, K, T] and derivatives [M, O / groups, T].
struct Products {
  at::Tensor patches, derivatives;
};

Products products_of(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight, const Geometry& g,
                     std::int64_t group) {
  const std::int64_t inputs = weight[1], outputs = weight[0] / g.groups;
  const auto part = x.narrow(1, group * inputs, inputs).contiguous();
  auto patches = at::im2col(part, weight.slice(2), pair_of(g.dilation), pair_of(g.padding), pair_of(g.stride));
  const auto derivatives = dz.narrow(1, group * outputs, outputs).flatten(2);
  return {patches.narrow(2, 0, derivatives.size(2)), derivatives};
}

/// [G, C] -> [M, C, 1, 1], the values of each example's ghost batch.
at::Tensor by_example(const at::Tensor& values, std::int64_t ghost_batch) {
  return values.repeat_interleave(ghost_batch, 0).unsqueeze(2).unsqueeze(3);
}

/// Sums over a ghost batch [G, C].
at::Tensor ghost_sums(const at::Tensor& x, std::int64_t ghost_batch) {
  return x.sum({2, 3}).view({-1, ghost_batch, x.size(1)}).sum(1);
}

}  // namespace

at::Tensor weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares,
                                   at::IntArrayRef weight, const Geometry& g, std::int64_t examples_per_group,
                                   bool spatial) {
  const std::int64_t outputs = weight[0] / g.groups, elements = outputs * weight[1] * weight[2] * weight[3];
  const std::int64_t unit = spatial ? 1 : examples_per_group;
  const std::int64_t block = std::max<std::int64_t>(1, kBlockElements / (elements * unit)) * unit;
  auto gradient = at::zeros(weight, x.options().memory_format(at::MemoryFormat::Contiguous));
  auto sums = squares.view(weight);
  for (std::int64_t group = 0; group < g.groups; ++group)
    for (std::int64_t first = 0; first < x.size(0); first += block) {
      const std::int64_t n = std::min(block, x.size(0) - first);
      const auto [a, d] = products_of(x.narrow(0, first, n), dz.narrow(0, first, n), weight, g, group);
      const auto rows = at::bmm(d, a.transpose(1, 2)).view({n, -1});  // [n, O K]
      const auto add = [&](at::Tensor& target, const at::Tensor& value) {
        auto part = target.narrow(0, group * outputs, outputs);
        part.add_(value.view(part.sizes()));
      };
      add(gradient, rows.sum(0));
      add(sums, spatial ? at::bmm(d.pow(2), a.pow(2).transpose(1, 2)).sum(0) : group_squares(rows, unit));
    }
  return gradient;
}

std::tuple<at::Tensor, at::Tensor> ghost_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                                              const at::Tensor& bias, at::Tensor running_mean, at::Tensor running_var,
                                              std::int64_t ghost_batch, double momentum, double eps, bool relu) {
  const double count = static_cast<double>(ghost_batch * x.size(2) * x.size(3));
  const auto mean = ghost_sums(x, ghost_batch) / count;
  const auto variance = ghost_sums((x - by_example(mean, ghost_batch)).pow(2), ghost_batch) / count;
  const auto rstd = (variance + eps).rsqrt();
  for (std::int64_t g = 0; g < mean.size(0); ++g) {
    running_mean.mul_(1 - momentum).add_(mean[g], momentum);
    running_var.mul_(1 - momentum).add_(variance[g], momentum * count / (count - 1));
  }
  auto y = (x - by_example(mean, ghost_batch)) * by_example(rstd * weight, ghost_batch) + bias.view({1, -1, 1, 1});
  if (residual.defined()) y.add_(residual);
  if (relu) y.relu_();
  return {y, at::stack({mean, rstd})};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ghost_norm_backward(const NormBackward& c) {
  const auto d = c.relu ? at::threshold_backward(c.dy, c.y, 0) : c.dy.clone();
  const auto mean = by_example(c.statistics[0], c.ghost_batch), rstd = by_example(c.statistics[1], c.ghost_batch);
  const auto xhat = (c.x - mean) * rstd;
  const double count = static_cast<double>(c.ghost_batch * c.x.size(2) * c.x.size(3));
  const auto mean_d = by_example(ghost_sums(d, c.ghost_batch) / count, c.ghost_batch);
  const auto mean_product = by_example(ghost_sums(d * xhat, c.ghost_batch) / count, c.ghost_batch);
  const auto dx = c.weight.view({1, -1, 1, 1}) * rstd * (d - mean_d - xhat * mean_product);
  const auto dweight = (d * xhat).sum({2, 3}), dbias = d.sum({2, 3});
  if (c.weight_squares.defined()) c.weight_squares.add_(group_squares(dweight, c.examples_per_group));
  if (c.bias_squares.defined()) c.bias_squares.add_(group_squares(dbias, c.examples_per_group));
  return {dx, c.residual ? d : at::Tensor(), dweight.sum(0), dbias.sum(0)};
}

}  // namespace covnoise::cuda::double_precision
