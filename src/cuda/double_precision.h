#pragma once
#include <ATen/core/Tensor.h>

#include <tuple>

// Double precision on a GPU with PyTorch's own operators, because the kernels support only lower precision. For tests
// and studies of small networks; one block of examples at a time is in memory.
namespace covnoise::cuda::double_precision {

struct Geometry {
  at::IntArrayRef stride, padding, dilation;
  std::int64_t groups;
};

/// As conv2d_weight_gradient_squares (ops/weight_gradient.h); a linear layer is a 1x1 convolution of one pixel.
at::Tensor weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares,
                                   at::IntArrayRef weight_sizes, const Geometry& geometry,
                                   std::int64_t examples_per_group, bool spatial);

/// As ghost_batch_norm (ops/ghost_batch_norm.h): y and statistics [2, G, C].
std::tuple<at::Tensor, at::Tensor> ghost_norm(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                                              const at::Tensor& bias, at::Tensor running_mean, at::Tensor running_var,
                                              std::int64_t ghost_batch, double momentum, double eps, bool relu);

struct NormBackward {
  at::Tensor dy, x, y, weight, statistics;
  std::int64_t ghost_batch;
  bool relu, residual;
  at::Tensor weight_squares, bias_squares;
  std::int64_t examples_per_group;
};
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ghost_norm_backward(const NormBackward& call);

}  // namespace covnoise::cuda::double_precision
