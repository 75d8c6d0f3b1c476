#pragma once
#include "covnoise/nn/accounting.h"
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/ops/philox.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace covnoise {

/// Whose labels the statistics are of: the data's (the paper's empirical Fisher matrix) or labels drawn from the
/// model's own predictions (its exact one).
enum class Labels { kData, kModel };

/// One more backward pass through the graph of the step, whose result is itself a draw of noise.
enum class ExtraBackward {
  kNone,
  kSigned,         ///< of sum_i sigma_i l_i, sigma_i = +-1
  kSampledLabels,  ///< of sum_i -log p(y_i), y_i drawn from the model
};

/// What a structure asks of the step's backward passes.
struct Needs {
  Squares squares = Squares::kNone;
  bool kronecker = false;  ///< of linear and convolution layers; squares are then taken of the other layers only
  Labels labels = Labels::kData;
  ExtraBackward extra = ExtraBackward::kNone;
  /// Whether what the passes give is a draw, of which every step needs its own.
  bool draw() const { return kronecker || extra != ExtraBackward::kNone; }
  friend bool operator==(const Needs& a, const Needs& b) {
    return a.squares == b.squares && a.kronecker == b.kronecker && a.labels == b.labels && a.extra == b.extra;
  }
};

/// One layer's part of C = A (x) G for the matrix [weight, bias] of shape [I, K(+1)]: G. Instead of the other factor,
/// A = mean_i sum_t a a^T, `Statistics::draw` has I independent draws from N(0, A).
struct KroneckerFactor {
  std::size_t weight;      ///< index into FlatParameters::entries()
  std::int64_t bias = -1;  ///< the same, or -1
  at::Tensor output;       ///< G = mean over i and t of Dz Dz^T
};

/// What the backward passes of one large batch gave. Buffers have the layout of `parameters`; those that were not asked
/// for are undefined.
struct GradientStatistics {
  const FlatParameters* parameters = nullptr;
  std::int64_t examples = 0;             ///< M
  at::Tensor gradient;                   ///< g, the mean over examples
  at::Tensor diagonal;                   ///< estimate of diag(F); zero where a layer has a Kronecker factor instead
  bool centred = false;                  ///< whether the diagonal is of the covariance (ghost) or of F itself
  at::Tensor draw;                       ///< (1/sqrt M) sum_i sigma_i g_i, or the same with labels of the model, or
                                         ///< (1/sqrt M) sum_i sum_t xi a^T where a layer has a Kronecker factor
  std::vector<KroneckerFactor> factors;  ///< of the layers that have one
};

/// One covariance structure C. Knows nothing of schedules, placement, momentum or devices: `Injection` does.
///
/// Contract, checked by one test for every structure in the table: over the draws of `stream` the samples have mean
/// zero and covariance C; equal arguments give equal samples; `sample` changes nothing, and its result is a tensor of
/// its own or statistics.draw. Elements of the sample outside the parameters (the gaps of the layout) may have any
/// value.
class NoiseStructure {
 public:
  virtual ~NoiseStructure() = default;
  virtual Needs needs() const = 0;
  /// C^(1/2) xi, xi ~ N(0, I) from the stream of this step, in the layout of statistics.parameters.
  virtual at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const = 0;
  /// Where C is diagonal, C itself, zero in the gaps: the update then draws sqrt(C) xi without `sample`. Else
  /// undefined.
  virtual at::Tensor variance(const GradientStatistics&) const { return {}; }
  /// Whether s = sqrt((M_L - M_S) / (M_L M_S)) scales the noise. Not where sigma alone says how strong it is.
  virtual bool scaled_by_batch() const { return true; }
  /// Whether C is a mean over examples, so that independent samples from the statistics of parts of a batch, each times
  /// the square root of its share, add up to one of the whole. Else the whole is needed for a sample.
  virtual bool adds_up_over_parts() const { return !(needs() == Needs{}); }
};

/// What a structure is made from: the [noise] section of a recipe, and what the network is like.
struct StructureOptions {
  std::string estimator =
      "auto";  ///< of diag-fisher, fisher-trace: exact | ghost | signs | spatial; auto by the network
  Labels labels = Labels::kData;
  double sigma = 0.1;             ///< of multiplicative and isotropic
  bool batch_statistics = false;  ///< whether the network normalises by batch statistics
};

/// The structure of that name; an unknown one lists the known ones.
std::unique_ptr<NoiseStructure> make_structure(const std::string& name, const StructureOptions& options);
std::vector<std::string> structure_names();

}  // namespace covnoise
