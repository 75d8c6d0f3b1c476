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
/// which leave the predictions alone leave the eigenvalues alone.
struct HessianOptions {
  std::string split = "train";  ///< whose loss: train or test
  std::int64_t examples = -1;   ///< the first N; 0: all; -1: 2000, or all where there are fewer
  LanczosOptions lanczos;       ///< how many, how well
  std::int64_t density = 0;     ///< random starts of the spectral density; 0: none
  std::int64_t density_steps = 40;
  double memory = 0;  ///< GiB for graphs that are kept between products; 0: half of what is free
};

/// Eigenvalues of one run.
struct HessianResult {
  std::string run, model, data, regime;
  std::uint64_t seed = 0;  ///< of the run
  std::int64_t step = 0, examples = 0, parameters = 0;
  double temperature = 1;
  Eigenvalues eigenvalues;
  Spectrum spectrum;  ///< empty where it was not asked for
};

/// Eigenvalues of several runs.
struct HessianStudy {
  HessianOptions options;
  std::vector<HessianResult> results;  ///< one for each run
};

/// Changes the network of `trained` (folds it). `say` gets a short text after every iteration.
HessianResult hessian_of(TrainedModel& trained, const HessianOptions& options,
                         const std::function<void(const std::string&)>& say);

std::string hessian_table(const HessianStudy& study);

/// hessian.csv, hessian.json (and spectrum.csv) and the figure, in `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const HessianStudy& study, const std::filesystem::path& folder);

}  // namespace covnoise
