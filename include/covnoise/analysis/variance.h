#pragma once
#include "covnoise/analysis/measured.h"
#include "covnoise/data/loader.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/plot/figure.h"
#include "covnoise/train/config.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// How much the update direction of a frozen network varies, by regime and layer: figure 2 of the paper.
struct VarianceOptions {
  std::vector<std::string> regimes;  ///< names, `lb-diag:exact` with an estimator; empty: default_variance_regimes
  std::int64_t samples =
      64;  ///< directions of a large-batch regime, a multiple of 8, at least 16; sb has M_L / M_S more
  std::int64_t small_batch = 128;   ///< M_S: batch of `sb`, ghost batch of the others
  std::int64_t large_batch = 1024;  ///< M_L, a multiple of M_S
  std::uint64_t seed = 0;
};

/// Gradient variance of one layer.
struct LayerVariance {
  std::string layer;  ///< the last one is "all"
  std::int64_t parameters = 0;
  Measured variance;     ///< of the direction, mean over the layer's parameters
  Measured over_sb;      ///< ratio to the small batch's variance
  Measured covariance;   ///< the regime's estimate of C, mean over the layer's diagonal; NaN if it has none
  Measured over_actual;  ///< ratio to M_S times the small batch's variance: 1 if the estimate is right
};

/// Gradient variance of one regime.
struct RegimeVariance {
  std::string regime;
  std::int64_t batch = 0;
  std::vector<LayerVariance> layers;
};

/// Gradient variances of the regimes at one network.
struct VarianceStudy {
  VarianceOptions options;
  std::string model, data;
  std::int64_t step = 0;                ///< of the network, for the figure
  std::vector<RegimeVariance> regimes;  ///< the first is `sb`
};

/// sb, lb, lb-diag and lb-full; with batch statistics every estimator of lb-diag.
std::vector<std::string> default_variance_regimes(const std::string& model);

/// Monte Carlo over mini-batches drawn with replacement (so that M examples have 1/M of one's variance exactly), as the
/// training sees them: batch statistics, augmentation, the noise of the regime at full scale. Variances are unbiased,
/// from blocks of 8 directions; the errors are the standard errors over the blocks. The network is not changed.
/// `done(examples, all)` is called after every direction.
VarianceStudy study_variance(const Config& run, Model& model, const Loader& loader, const VarianceOptions& options,
                             const std::function<void(std::int64_t, std::int64_t)>& done);

std::string variance_table(const VarianceStudy& study);

/// variance.csv, variance.json and the figure, in `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const VarianceStudy& study, const std::filesystem::path& folder,
                                              plot::Formats formats = plot::Formats::kSvgAndPng);

}  // namespace covnoise
