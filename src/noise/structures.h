#pragma once
#include "covnoise/noise/structure.h"

namespace covnoise {

/// The estimator of the diagonal: the named one, or `ghost` for networks with batch statistics and `exact` for others.
Squares squares_estimator(const StructureOptions& options);

/// Squares by that estimator, of the labels that the options name.
Needs squares_needs(const StructureOptions& options);

std::unique_ptr<NoiseStructure> make_no_noise(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_diag_fisher(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_full_fisher(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_true_fisher(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_fisher_trace(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_kfac(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_multiplicative(const StructureOptions& options);
std::unique_ptr<NoiseStructure> make_isotropic(const StructureOptions& options);

}  // namespace covnoise
