#pragma once
#include "covnoise/noise/structure.h"

namespace covnoise {

/// A structure whose C is diagonal and known: the sample is that of its variance.
class DiagonalStructure : public NoiseStructure {
 public:
  at::Tensor variance(const GradientStatistics& statistics) const override = 0;
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const final;
};

/// The same variance for every parameter: `value`, a number or a scalar tensor; zero in the gaps.
at::Tensor equal_variance(const GradientStatistics& statistics, const at::Tensor& value);

/// The estimator of the diagonal: the named one, or for `auto`, `ghost` if the network has batch statistics, else
/// `exact`.
Squares squares_estimator(const NoiseOptions& options, bool batch_statistics);

/// Squares by that estimator, with the labels that the options name.
Needs squares_needs(const NoiseOptions& options, bool batch_statistics);

std::unique_ptr<NoiseStructure> make_no_noise(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_diag_fisher(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_full_fisher(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_true_fisher(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_fisher_trace(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_kfac(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_multiplicative(const NoiseOptions& options, bool batch_statistics);
std::unique_ptr<NoiseStructure> make_isotropic(const NoiseOptions& options, bool batch_statistics);

}  // namespace covnoise
