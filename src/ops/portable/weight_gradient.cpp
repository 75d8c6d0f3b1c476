#include "covnoise/ops/internal/group_squares.h"
#include "ops/portable/portable.h"
#include "ops/portable/products.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

namespace covnoise::portable {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 28;  // of patches, or of gradients, in memory at once
constexpr std::int64_t kLibraryGroup = 32;  // examples of a group from which on the library's weight gradient is taken
constexpr std::int64_t kProducts = 256;     // at least, where the examples allow it: a GPU wants many small products

/// [M, C, Ho, Wo] -> [M, T, C], T output positions; a view if channels are last.
at::Tensor by_position(const at::Tensor& dz) {
  return dz.permute({0, 2, 3, 1}).reshape({dz.size(0), dz.size(2) * dz.size(3), dz.size(1)});
}

/// Input patches [M, T, kh kw C], in one copy.
at::Tensor patches_of(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight, const Geometry& g) {
  const std::int64_t ph = g.padding.front(), pw = g.padding.back();
  const auto padded = ph == 0 && pw == 0 ? x : at::constant_pad_nd(x, {pw, pw, ph, ph});
  const auto step = padded.strides();
  const auto windows = padded.as_strided({x.size(0), dz.size(2), dz.size(3), weight[2], weight[3], weight[1]},
                                         {step[0], step[2] * g.stride.front(), step[3] * g.stride.back(),
                                          step[2] * g.dilation.front(), step[3] * g.dilation.back(), step[1]},
                                         padded.storage_offset());
  return windows.reshape({x.size(0), dz.size(2) * dz.size(3), weight[2] * weight[3] * weight[1]});
}

/// The largest divisor of `group` that leaves kProducts products.
std::int64_t examples_per_product(std::int64_t examples, std::int64_t group) {
  std::int64_t count = std::clamp<std::int64_t>(examples / kProducts, 1, group);
  while (group % count != 0) --count;
  return count;
}

/// Gradients of groups of examples [n / group, O, K], from d [n, T, O] and a [n, T, K].
at::Tensor group_gradients(const at::Tensor& d, const at::Tensor& a, std::int64_t group) {
  const std::int64_t each = examples_per_product(a.size(0), group);
  const auto left = d.reshape({-1, each * d.size(1), d.size(2)}), right = a.reshape({-1, each * a.size(1), a.size(2)});
  const auto gradients = products(left.transpose(1, 2), right);
  if (each == group) return gradients;
  return gradients.view({-1, group / each, gradients.size(1), gradients.size(2)}).sum(1);
}

/// Weight gradients [n, O, C, kh, kw] of n groups, one after the other: the library reads x and dz once, without
/// patches, which would be a copy of kh kw times x.
at::Tensor one_by_one(const at::Tensor& x, const at::Tensor& dz, const std::vector<std::int64_t>& sizes,
                      at::IntArrayRef weight, const Geometry& g, at::ScalarType type) {
  const auto like = at::empty(weight, x.options(), x.suggest_memory_format());
  const auto all = at::empty(sizes, x.options().dtype(type));
  const std::int64_t group = x.size(0) / sizes[0];
  for (std::int64_t i = 0; i < sizes[0]; ++i) {
    const auto of_group = [&](const at::Tensor& whole) { return whole.narrow(0, i * group, group); };
    all[i].copy_(std::get<1>(at::convolution_backward(of_group(dz), of_group(x), like, at::OptionalIntArrayRef(),
                                                      g.stride, g.padding, g.dilation, /*transposed=*/false, {0, 0},
                                                      g.groups, {false, true, false})));
  }
  return all;
}

/// [n m, C, H, W] -> [m, n C, H, W] with channels last.
at::Tensor groups_as_channels(const at::Tensor& x, std::int64_t n) {
  const std::int64_t m = x.size(0) / n, c = x.size(1), h = x.size(2), w = x.size(3);
  const auto rows = x.permute({0, 2, 3, 1}).reshape({n, m, h, w, c});
  return rows.permute({1, 2, 3, 0, 4}).reshape({m, h, w, n * c}).permute({0, 3, 1, 2});
}

/// The same in one call: a convolution with n channel groups, one for each group of examples. For two copies of the
/// activations it saves n launches, each too small for a GPU.
at::Tensor all_at_once(const at::Tensor& x, const at::Tensor& dz, const std::vector<std::int64_t>& sizes,
                       const Geometry& g, at::ScalarType type) {
  const std::int64_t n = sizes[0];
  const auto like =
      at::empty({n * sizes[1], sizes[2], sizes[3], sizes[4]}, x.options(), at::MemoryFormat::ChannelsLast);
  const auto gradients =
      std::get<1>(at::convolution_backward(groups_as_channels(dz, n), groups_as_channels(x, n), like,
                                           at::OptionalIntArrayRef(), g.stride, g.padding, g.dilation,
                                           /*transposed=*/false, {0, 0}, n, {false, true, false}));
  return gradients.to(type).reshape(sizes);
}

/// Whether a convolution with a channel group for each group of examples is the faster way (docs/performance.md).
bool is_narrow(at::IntArrayRef weight, const Geometry& g) {
  constexpr std::int64_t kAligned = 8, kWidest = 64;
  const auto fits = [&](std::int64_t channels) { return channels % kAligned == 0 && channels <= kWidest; };
  return g.groups == 1 && fits(weight[0]) && fits(weight[1]);
}

/// Of large groups, by the library. Activations of low precision give gradients of the groups in that precision, as
/// autocast does.
at::Tensor squares_by_library(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares, at::IntArrayRef weight,
                              const Geometry& g, std::int64_t group) {
  const std::int64_t groups = x.size(0) / group;
  const std::int64_t block = std::clamp<std::int64_t>(kMostElements / squares.numel(), 1, groups);
  const auto type = squares.scalar_type();
  auto gradient = at::zeros(weight, squares.options());
  auto sums = squares.view(weight);
  for (std::int64_t first = 0; first < groups; first += block) {
    std::vector<std::int64_t> sizes = weight.vec();
    sizes.insert(sizes.begin(), std::min(block, groups - first));
    const auto part = [&](const at::Tensor& whole) { return whole.narrow(0, first * group, sizes[0] * group); };
    const auto all = is_narrow(weight, g) ? all_at_once(part(x), part(dz), sizes, g, type)
                                          : one_by_one(part(x), part(dz), sizes, weight, g, type);
    gradient.add_(all.sum(0));
    sums.add_(all.square().sum(0));
  }
  return gradient;
}

}  // namespace

at::Tensor weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares,
                                   at::IntArrayRef weight, const Geometry& g, std::int64_t examples_per_group,
                                   bool spatial) {
  const std::int64_t inputs = weight[1], outputs = weight[0] / g.groups, elements = inputs * weight[2] * weight[3];
  const std::int64_t group = spatial ? 1 : examples_per_group, positions = dz.size(2) * dz.size(3);
  TORCH_CHECK(group > 0 && x.size(0) % group == 0, "weight gradient: ", x.size(0),
              " examples are not a whole number of groups of ", group);
  if (!spatial && group >= kLibraryGroup) return squares_by_library(x, dz, squares, weight, g, group);
  const std::int64_t of_example = elements * std::max(positions, outputs / examples_per_product(x.size(0), group) + 1);
  const std::int64_t block = std::max<std::int64_t>(1, kMostElements / (of_example * group)) * group;
  auto gradient = at::zeros({weight[0], weight[2], weight[3], inputs}, squares.options());
  auto sums = at::zeros_like(gradient);
  for (std::int64_t part = 0; part < g.groups; ++part) {
    const auto add = [&](at::Tensor& target, const at::Tensor& value) {
      auto rows = target.narrow(0, part * outputs, outputs);
      rows.add_(value.view(rows.sizes()));
    };
    for (std::int64_t first = 0; first < x.size(0); first += block) {
      const std::int64_t n = std::min(block, x.size(0) - first);
      const auto of_part = dz.narrow(0, first, n).narrow(1, part * outputs, outputs);
      const auto a = patches_of(x.narrow(0, first, n).narrow(1, part * inputs, inputs), of_part, weight, g);
      const auto d = by_position(of_part);
      const auto gradients = group_gradients(d, a, group);
      add(gradient, gradients.sum(0));
      if (!spatial) {
        add(sums, gradients.square().sum(0));
        continue;
      }
      const auto type = squares.scalar_type();
      add(sums, group_gradients(d.to(type).square(), a.to(type).square(), group).sum(0));
    }
  }
  squares.view(weight).add_(sums.permute({0, 3, 1, 2}));
  return gradient.permute({0, 3, 1, 2}).contiguous();
}

at::Tensor linear_group_squares(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares,
                                std::int64_t examples_per_group) {
  const std::int64_t outputs = dz.size(1), inputs = a.size(1), examples = a.size(0), group = examples_per_group;
  const std::int64_t block = std::max<std::int64_t>(1, kMostElements / (outputs * inputs)) * group;
  auto gradient = at::zeros({outputs, inputs}, squares.options());
  auto sums = squares.view({outputs, inputs});
  for (std::int64_t first = 0; first < examples; first += block) {
    const std::int64_t n = std::min(block, examples - first);
    const auto part = [&](const at::Tensor& all) { return all.narrow(0, first, n).reshape({n / group, group, -1}); };
    const auto gradients = products(part(dz).transpose(1, 2), part(a));
    gradient.add_(gradients.sum(0));
    sums.add_(gradients.square().sum(0));
  }
  return gradient;
}

at::Tensor bias_gradient_squares(const at::Tensor& dz, at::Tensor& squares, std::int64_t examples_per_group,
                                 bool spatial) {
  const auto type = squares.scalar_type();
  const bool image = dz.dim() == 4;
  const auto by_example = image ? dz.sum({2, 3}, false, type) : dz.to(type);
  if (spatial && image) {
    squares.add_(dz.to(type).square().sum({0, 2, 3}));
  } else {
    squares.add_(group_squares(by_example, spatial ? 1 : examples_per_group));
  }
  return by_example.sum(0);
}

}  // namespace covnoise::portable
