#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <tuple>

/// The operators in terms of PyTorch's own, on any device: what a GPU does where our kernels do not fit (another
/// architecture, double precision), or if COVNOISE_KERNELS=portable asks for it. Sums are in the type of `squares`, of
/// the parameters or of the statistics, whatever that of the activations is; only the library's weight gradients of
/// large groups are rounded to the latter.
namespace covnoise::portable {

struct Geometry {
  at::IntArrayRef stride, padding, dilation;
  std::int64_t groups;
};

/// As conv2d_weight_gradient_squares (ops/weight_gradient.h).
at::Tensor weight_gradient_squares(const at::Tensor& x, const at::Tensor& dz, at::Tensor& squares,
                                   at::IntArrayRef weight_sizes, const Geometry& geometry,
                                   std::int64_t examples_per_group, bool spatial);

/// As linear_weight_gradient_squares, for groups of several examples.
at::Tensor linear_group_squares(const at::Tensor& a, const at::Tensor& dz, at::Tensor& squares,
                                std::int64_t examples_per_group);

/// As bias_gradient_squares.
at::Tensor bias_gradient_squares(const at::Tensor& dz, at::Tensor& squares, std::int64_t examples_per_group,
                                 bool spatial);

/// As the operator moment_totals (ops/moment_totals.h).
at::Tensor moment_totals(at::TensorList moments, at::ArrayRef<double> weights);

/// What ghost_batch_norm (ops/ghost_batch_norm.h) takes.
struct NormForward {
  at::Tensor x, residual;  ///< [M, C, H, W]; the residual may be undefined
  at::Tensor weight, bias, running_mean, running_var;
  std::int64_t ghost_batch = 0;
  double momentum = 0, eps = 0;
  bool relu = false;
};
/// y and the statistics [5, G, C].
std::tuple<at::Tensor, at::Tensor> ghost_norm(const NormForward& call);

/// What ghost_batch_norm_backward takes.
struct NormBackward {
  at::Tensor dy, x, y;  ///< y is needed with a ReLU
  at::Tensor weight, statistics;
  std::int64_t ghost_batch = 0;
  bool relu = false, residual = false;
  at::Tensor weight_squares, bias_squares;  ///< added to, if defined
  std::int64_t examples_per_group = 1;
};
/// dx, dresidual (empty without a residual), dweight, dbias.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> ghost_norm_backward(const NormBackward& call);

/// As norm_group_sums (ops/norm_group_sums.h): sums, gradients and moments. Also what a CPU does.
std::tuple<at::Tensor, at::Tensor, at::Tensor> norm_group_sums(const at::Tensor& dy, const at::Tensor& x,
                                                               const at::Tensor& mean, const at::Tensor& rstd,
                                                               std::int64_t examples_per_group);

/// As load_images (ops/load_images.h), with indices on the device of the images.
at::Tensor load_images(const at::Tensor& images, const at::Tensor& indices, at::ArrayRef<double> mean,
                       at::ArrayRef<double> std, bool augment, std::int64_t seed, std::int64_t epoch,
                       at::ScalarType type);

}  // namespace covnoise::portable
