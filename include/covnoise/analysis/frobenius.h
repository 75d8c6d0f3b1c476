#pragma once
#include "covnoise/analysis/measured.h"
#include "covnoise/data/loader.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/plot/figure.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// Squared Frobenius norms of the empirical Fisher matrix F = (1/M) sum_i g_i g_i^T and of its diagonal, from the same
/// g_i. Plain: of these M examples' F. Unbiased for the F that the examples are drawn from: means over pairs i != j,
///   |F|^2 ~ sum_{i != j} (g_i . g_j)^2 / (M (M - 1)),   |diag F|^2 ~ sum_{i != j} sum_p g_ip^2 g_jp^2 / (M (M - 1)).
struct FrobeniusNorms {
  double full = 0, diagonal = 0;
  double full_unbiased = 0, diagonal_unbiased = 0;
};

/// From the Gram matrix of the layers' contributions (docs/noise.md): F itself is never formed. `forward` runs `module`
/// in the mode it is in; all examples go through at once.
FrobeniusNorms squared_frobenius_norms(torch::nn::Module& module,
                                       const std::function<at::Tensor(const at::Tensor&)>& forward,
                                       const at::Tensor& images, const at::Tensor& labels);

/// Which examples and steps.
struct FrobeniusOptions {
  std::int64_t examples = 512;  ///< M, of one batch
  std::int64_t batches = 4;     ///< independent ones, at least 2
  bool training_mode = false;   ///< batch statistics (contributions) instead of running ones
  std::uint64_t seed = 0;
};

/// Norms, not squared, with standard errors over the batches.
struct FrobeniusPoint {
  std::int64_t step = 0;
  Measured full, diagonal, full_unbiased, diagonal_unbiased;
};

/// The norms along the training of a run.
struct FrobeniusStudy {
  FrobeniusOptions options;
  std::string model, data, regime;
  std::vector<FrobeniusPoint> points;  ///< by step
};

/// The network as it is now. Its running statistics are not changed.
FrobeniusPoint frobenius_point(Model& model, const Loader& loader, const FrobeniusOptions& options);

std::string frobenius_table(const FrobeniusStudy& study);

/// frobenius.csv, frobenius.json and the figure, in `folder`; returns the paths.
std::vector<std::filesystem::path> save_study(const FrobeniusStudy& study, const std::filesystem::path& folder,
                                              plot::Formats formats = plot::Formats::kSvgAndPng);

}  // namespace covnoise
