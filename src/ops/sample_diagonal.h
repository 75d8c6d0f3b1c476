#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace covnoise {

/// The arguments of the operator sample_diagonal, checked: sample k = scales[k] sqrt(v) xi of
///
///     v = factor max(moments[k][1] - of_sums moments[k][0]^2, 0)
///
/// with moments[k] [2, *sizes]; element i has normal 4 firsts[k] + i of the stream, whatever the sample's layout.
struct DiagonalSamples {
  at::TensorList moments;
  double of_sums, factor;
  at::ArrayRef<double> scales;
  at::IntArrayRef firsts;

  /// `like` has the sizes and layouts of the samples.
  void check(at::TensorList like) const {
    TORCH_CHECK(like.size() == moments.size() && scales.size() == moments.size() && firsts.size() == moments.size(),
                "sample_diagonal: ", moments.size(), " moments, ", like.size(), " tensors, ", scales.size(),
                " scales and ", firsts.size(), " first blocks");
    for (std::size_t k = 0; k < moments.size(); ++k) {
      const auto& m = moments[k];
      TORCH_CHECK(m.is_contiguous() && m.dim() == like[k].dim() + 1 && m.size(0) == 2 &&
                      m.sizes().slice(1) == like[k].sizes() && m.scalar_type() == moments[0].scalar_type() &&
                      m.device() == moments[0].device() && m.device() == like[k].device(),
                  "sample_diagonal: moments ", m.sizes(), " must be contiguous, of one type and device, and two of ",
                  like[k].sizes());
    }
  }

  /// Where sample k goes, uninitialised; the first way is what empty_like does, with one call fewer.
  at::Tensor empty(std::size_t k, const at::Tensor& like) const {
    const auto options = like.options().dtype(moments[k].scalar_type());
    return like.is_non_overlapping_and_dense() ? at::empty_strided(like.sizes(), like.strides(), options)
                                               : at::empty_like(like, options);
  }
};

}  // namespace covnoise
