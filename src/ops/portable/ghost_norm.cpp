#include "covnoise/ops/internal/group_squares.h"
#include "covnoise/ops/internal/optional_tensor.h"
#include "ops/normalisation/norm_statistics.h"
#include "ops/portable/portable.h"
#include "ops/portable/products.h"

#include <ATen/ATen.h>

#include <cmath>

namespace covnoise::portable {
namespace {

/// [M, C, H, W] with channels last, as [M H W / rows, rows, C]: a view.
at::Tensor rows_of(const at::Tensor& x, std::int64_t rows) {
  return x.permute({0, 2, 3, 1}).view({-1, rows, x.size(1)});
}

at::Tensor channels_last(const at::Tensor& x) { return x.contiguous(at::MemoryFormat::ChannelsLast); }

at::Tensor empty_like_rows(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options().memory_format(at::MemoryFormat::ChannelsLast));
}

/// The mean in the type of the activations, to subtract it without a copy of them in another type; sums are corrected
/// for what rounding it changes.
at::Tensor rounded(const at::Tensor& mean, const at::Tensor& x) { return mean.to(x.scalar_type()).unsqueeze(1); }

/// As if the ghost batches had been batches in turn: running <- (1 - momentum) running + momentum value for each.
void update_running(at::Tensor running, const at::Tensor& values, double momentum) {
  const std::int64_t ghosts = values.size(0);
  const auto age = at::arange(ghosts - 1, -1, -1, values.options());
  const auto weights = at::pow(1 - momentum, age).mul_(momentum).unsqueeze(1);
  running.mul_(std::pow(1 - momentum, static_cast<double>(ghosts))).add_((values * weights).sum(0));
}

bool is_low(const at::Tensor& x) { return x.scalar_type() == at::kBFloat16; }

/// Mean and biased variance [G, C] of rows [G, rows, C].
struct RowMoments {
  at::Tensor mean, variance;
};

/// Of values of low precision: each example's sums in float32, without a copy, joined in double precision. The variance
/// loses (mean / deviation)^2 roundings of float32, which is less than what the rounding of the values has cost it.
RowMoments moments_of_low(const at::Tensor& in, std::int64_t positions, at::ScalarType type) {
  const auto by_example = in.view({-1, positions, in.size(2)});
  const auto joined = [&](const at::Tensor& sums) {
    return sums.to(at::kDouble).view({in.size(0), -1, in.size(2)}).sum(1).div_(static_cast<double>(in.size(1)));
  };
  const auto mean = joined(by_example.sum(1, false, type));
  const auto norms = at::linalg_vector_norm(by_example, 2, at::IntArrayRef({1}), false, type);
  const auto variance = (joined(norms.to(at::kDouble).square_()) - mean.square()).clamp_min_(0);
  return {mean.to(type), variance.to(type)};
}

/// Of others: from deviations from the mean.
RowMoments moments_of(const at::Tensor& in, at::ScalarType type) {
  const double count = static_cast<double>(in.size(1));
  const auto mean = in.sum(1, false, type).div_(count);
  const auto deviations = in - mean.unsqueeze(1);
  return {mean, at::linalg_vector_norm(deviations, 2, at::IntArrayRef({1}), false, type).square_().div_(count)};
}

constexpr std::int64_t kProductChannels = 64;  // up to which a matrix product is the cheapest way to sum products

/// Sums of d (x - mean) by example, [M, C]; in and gradient [G, rows, C], sums of d [G, m, C].
at::Tensor centred_sums(const at::Tensor& gradient, const at::Tensor& in, const at::Tensor& mean,
                        const at::Tensor& d_sums, std::int64_t positions) {
  const std::int64_t channels = in.size(2);
  const auto by_example = [&](const at::Tensor& rows) { return rows.view({-1, positions, channels}); };
  at::Tensor sums, origin;
  if (is_low(in) && channels <= kProductChannels) {  // the diagonals of d^T x: products without a rounding, no copy
    sums = products(by_example(gradient).transpose(1, 2), by_example(in)).diagonal(0, 1, 2);
    origin = at::zeros_like(mean).unsqueeze(1);
  } else {
    origin = rounded(mean, in);
    sums = by_example(gradient * (in - origin)).sum(1, false, d_sums.scalar_type());
  }
  return sums.reshape(d_sums.sizes()) - d_sums * (mean.unsqueeze(1) - origin);
}

/// One ghost batch of all examples is PyTorch's batch normalisation.
std::tuple<at::Tensor, at::Tensor> whole_batch_norm(const NormForward& c) {
  const auto [y, mean, rstd] = at::native_batch_norm(channels_last(c.x), c.weight, c.bias, c.running_mean,
                                                     c.running_var, /*training=*/true, c.momentum, c.eps);
  return {channels_last(y), norm_statistics(mean.unsqueeze(0), rstd.unsqueeze(0), c.eps, c.weight, c.bias)};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> ghost_norm(const NormForward& c) {
  if (c.ghost_batch == c.x.size(0)) {
    auto result = whole_batch_norm(c);
    if (c.residual.defined()) std::get<0>(result).add_(c.residual);
    if (c.relu) std::get<0>(result).relu_();
    return result;
  }
  const auto x = channels_last(c.x);
  const std::int64_t rows = c.ghost_batch * x.size(2) * x.size(3);
  const double count = static_cast<double>(rows);
  const auto in = rows_of(x, rows);
  const auto type = c.weight.scalar_type();
  const auto [mean, variance] = is_low(x) ? moments_of_low(in, x.size(2) * x.size(3), type) : moments_of(in, type);
  const auto rstd = (variance + c.eps).rsqrt_();
  update_running(c.running_mean, mean, c.momentum);
  update_running(c.running_var, variance * (count / (count - 1)), c.momentum);
  const auto scale = rstd * c.weight;
  auto y = empty_like_rows(x);
  auto out = rows_of(y, rows);
  at::addcmul_out(out, (c.bias - mean * scale).unsqueeze(1), in, scale.unsqueeze(1));
  if (c.residual.defined()) y.add_(c.residual);
  if (c.relu) y.relu_();
  return {y, norm_statistics(mean, rstd, c.eps, c.weight, c.bias)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ghost_norm_backward(const NormBackward& c) {
  const auto x = channels_last(c.x), dy = channels_last(c.dy);
  const std::int64_t positions = x.size(2) * x.size(3), rows = c.ghost_batch * positions, channels = x.size(1);
  const auto type = c.weight.scalar_type();
  const auto d = c.relu ? at::threshold_backward(dy, channels_last(c.y), 0) : dy;
  const auto mean = c.statistics[0], rstd = c.statistics[1];
  const auto in = rows_of(x, rows), gradient = rows_of(d, rows);
  // By example [G, m, C]: sums of d and of d xhat.
  const auto dbias = gradient.view({-1, positions, channels}).sum(1, false, type).view({-1, c.ghost_batch, channels});
  const auto dweight = centred_sums(gradient, in, mean, dbias, positions).mul_(rstd.unsqueeze(1));
  const double count = static_cast<double>(rows);
  const auto mean_d = dbias.sum(1).div_(count), mean_product = dweight.sum(1).div_(count);
  // dx = scale (d - mean_d - (x - mean) rstd mean_product) = scale d + slope x + constant
  const auto scale = c.weight * rstd, slope = -scale * rstd * mean_product;
  auto dx = empty_like_rows(x);
  auto out = rows_of(dx, rows);
  at::addcmul_out(out, (-scale * mean_d - slope * mean).unsqueeze(1), in, slope.unsqueeze(1));
  at::addcmul_out(out, out, gradient, scale.unsqueeze(1));
  const auto flat = [&](const at::Tensor& sums) { return sums.view({-1, channels}); };
  if (c.weight_squares.defined()) c.weight_squares.add_(group_squares(flat(dweight), c.examples_per_group));
  if (c.bias_squares.defined()) c.bias_squares.add_(group_squares(flat(dbias), c.examples_per_group));
  return {dx, c.residual ? (c.relu ? d : d.clone()) : nothing_like(dx), flat(dweight).sum(0), flat(dbias).sum(0)};
}

}  // namespace covnoise::portable
