#pragma once
#include "covnoise/nn/accounting.h"
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/noise/options.h"
#include "covnoise/ops/philox.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace covnoise {

/// An additional backward pass through the graph of the step, whose result is itself a draw of the noise.
enum class ExtraBackward {
  kNone,           ///< no additional pass
  kSigned,         ///< of sum_i sigma_i l_i, sigma_i = +-1
  kSampledLabels,  ///< of sum_i -log p(y_i), y_i sampled from the model
};

/// What a structure needs from the backward passes of a step.
struct Needs {
  Squares squares = Squares::kNone;  ///< for the diagonal
  bool kronecker = false;  ///< factors of linear and convolution layers; squares are then those of other layers only
  Labels labels = Labels::kData;               ///< of squares and factors
  ExtraBackward extra = ExtraBackward::kNone;  ///< another pass
  /// Whether the result of the passes is a draw, so that every step needs its own.
  bool draw() const { return kronecker || extra != ExtraBackward::kNone; }
  friend bool operator==(const Needs& a, const Needs& b) {
    return a.squares == b.squares && a.kronecker == b.kronecker && a.labels == b.labels && a.extra == b.extra;
  }
};

/// The factor G of a layer's C = A (x) G, for the matrix [weight, bias] of shape [I, K(+1)]. In place of the other
/// factor, A = mean_i sum_t a a^T, GradientStatistics::draw holds I independent draws from N(0, A).
struct KroneckerFactor {
  std::size_t weight;      ///< index into FlatParameters::entries()
  std::int64_t bias = -1;  ///< the same, or -1
  at::Tensor output;       ///< G = mean over i and t of Dz Dz^T
};

/// What the backward passes of one large batch computed. Buffers have the layout of `parameters`; those that were not
/// requested are undefined.
struct GradientStatistics {
  const FlatParameters* parameters = nullptr;  ///< layout of the buffers
  std::int64_t examples = 0;                   ///< M
  at::Tensor gradient;                         ///< g, the mean over examples
  at::Tensor diagonal;                   ///< estimate of diag(F); zero where a layer has a Kronecker factor instead
  bool centred = false;                  ///< whether `diagonal` estimates the covariance's (ghost, micro) or that of F
                                         ///< itself
  at::Tensor draw;                       ///< (1/sqrt M) sum_i sigma_i g_i, or the same with the model's labels, or
                                         ///< (1/sqrt M) sum_i sum_t xi a^T where a layer has a Kronecker factor
  std::vector<KroneckerFactor> factors;  ///< of the layers that have one
};

/// One covariance structure C. It knows nothing about schedules, placement, momentum or devices: `Injection` does.
///
/// Contract, checked by one test for every structure in the table: over the draws of `stream` the samples have mean
/// zero and covariance C; `variance`, where it is defined, is the diagonal of C, and C has nothing else; samples of the
/// shards of a batch, or of its ranks, add up to those of the whole; equal arguments give equal samples; `sample`
/// changes nothing, and its result is a new tensor or statistics.draw. Elements of the sample outside the parameters
/// (the gaps of the layout) may have any value.
///
/// The structures of covnoise, with their equations in the paper, their cost and when to choose them, are in
/// docs/noise.md; each is one file in src/noise/.
class NoiseStructure {
 public:
  virtual ~NoiseStructure() = default;
  /// What the backward passes must compute for `sample`.
  virtual Needs needs() const = 0;
  /// C^(1/2) xi, xi ~ N(0, I) from the stream of this step, in the layout of statistics.parameters.
  virtual at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const = 0;
  /// If C is diagonal and known from the statistics, C itself, zero in the gaps: the update then draws sqrt(C) xi
  /// without `sample`. Otherwise undefined.
  virtual at::Tensor variance(const GradientStatistics&) const { return {}; }
  /// Whether C = 0, so that no step needs a sample.
  virtual bool is_zero() const { return false; }
  /// Whether s = sqrt((M_L - M_S) / (M_L M_S)) scales the noise. Not if sigma alone sets its strength.
  virtual bool scaled_by_batch() const { return true; }
  /// Whether C is a mean over examples, so that independent samples from the statistics of the shards of a batch, each
  /// times the square root of its share, add up to a sample of the whole. Otherwise a sample needs the whole batch.
  virtual bool adds_up_over_shards() const { return !(needs() == Needs{}); }
  /// Whether only the sum of the diagonal is used. If the sample needs the whole batch (adds_up_over_shards), several
  /// ranks then exchange one number instead of the diagonal.
  virtual bool needs_only_trace() const { return false; }
};

/// The structure that the options name; an unknown name is an Error that lists the known ones. `batch_statistics`:
/// whether the network normalises by batch statistics, which decides the estimator `auto`.
std::unique_ptr<NoiseStructure> make_structure(const NoiseOptions& options, bool batch_statistics = false);
/// The options with the estimator that `auto` stands for: `ghost` or `exact`, as above, if every trainable parameter
/// belongs to an accounted layer, otherwise `micro`, which takes any module. Needs that only accounted layers can meet
/// (Kronecker factors, labels of the model) keep their estimator, and a GradientPass refuses other layers by name.
NoiseOptions with_estimator_for(torch::nn::Module& module, NoiseOptions options);
/// The names in the table.
std::vector<std::string> structure_names();

}  // namespace covnoise
