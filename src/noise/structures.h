#pragma once
#include "covnoise/noise/structure.h"

namespace covnoise {

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
