#include "nn/unfold.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 22;

}  // namespace

at::Tensor unfold(const at::Tensor& x, at::IntArrayRef weight_sizes, const ConvolutionGeometry& geometry) {
  return at::im2col(x, weight_sizes.slice(2), geometry.dilation, geometry.padding, geometry.stride);
}

void for_each_unfolded_block(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                             const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t elements = x.size(1) * weight_sizes[2] * weight_sizes[3] * dz.size(2) * dz.size(3);
  const std::int64_t block = std::max<std::int64_t>(1, kBlockElements / elements), examples = x.size(0);
  for (std::int64_t begin = 0; begin < examples; begin += block) body(begin, std::min(begin + block, examples));
}

at::Tensor per_example_gradients(const at::Tensor& x, const at::Tensor& dz, at::IntArrayRef weight_sizes,
                                 const ConvolutionGeometry& geometry) {
  const std::int64_t groups = geometry.groups, positions = dz.size(2) * dz.size(3);
  const std::int64_t rows = weight_sizes[0] / groups, columns = weight_sizes[1] * weight_sizes[2] * weight_sizes[3];
  auto gradients = at::empty({x.size(0), groups * rows * columns}, x.options());
  for_each_unfolded_block(x, dz, weight_sizes, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t batch = (end - begin) * groups;
    const auto patches = unfold(x.slice(0, begin, end), weight_sizes, geometry).reshape({batch, columns, positions});
    const auto part = dz.slice(0, begin, end).reshape({batch, rows, positions});
    auto out = gradients.slice(0, begin, end).view({batch, rows, columns});
    at::bmm_out(out, part, patches.transpose(1, 2));
  });
  return gradients;
}

}  // namespace covnoise
