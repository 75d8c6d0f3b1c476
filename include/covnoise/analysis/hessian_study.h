#pragma once
#include "covnoise/analysis/lanczos.h"
#include "covnoise/train/trainer.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// The largest eigenvalues of the Hessian of the loss, section 5.3 and figure 5b of the paper: batch normalisation is
/// folded into the weights and the logits are divided by a temperature calibrated on the test set, so that rescalings
/// that do not change the predictions do not change the eigenvalues.
struct HessianOptions {
  std::string split = "train";  ///< whose loss: train or test
  std::int64_t examples = -1;   ///< the first N; 0: all; -1: 2000, or all if there are fewer
  LanczosOptions lanczos;       ///< number of eigenvalues, tolerance, iterations
  std::int64_t density = 0;     ///< random starts of the spectral density; 0: none
  std::int64_t density_steps = 40;
  double memory = 0;  ///< GiB for graphs kept between products; 0: half of the free memory
};

/// Eigenvalues of one run.
struct HessianResult {
  std::string run, model, data, regime;
  std::uint64_t seed = 0;  ///< of the run
  std::int64_t step = 0, examples = 0, parameters = 0;
  double temperature = 1;
  Eigenvalues eigenvalues;
  Spectrum spectrum;  ///< empty unless requested
};

/// Eigenvalues of several runs.
struct HessianStudy {
  HessianOptions options;
  std::vector<HessianResult> results;  ///< one per run
};

/// Changes the network of `trained` (folds it). `say` gets a short text after every iteration.
HessianResult hessian_of(TrainedModel& trained, const HessianOptions& options,
                         const std::function<void(const std::string&)>& say);

std::string hessian_table(const HessianStudy& study);

/// hessian.csv, hessian.json (and spectrum.csv) and the figure, in `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const HessianStudy& study, const std::filesystem::path& folder);

}  // namespace covnoise
