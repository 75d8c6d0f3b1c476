#include "noise/structures.h"

#include "covnoise/ops/random.h"

namespace covnoise {
namespace {

/// C = diag(F), sampled as sqrt(diagonal) xi: equation 6 and algorithm 1 of the paper. The diagonal comes from one of
/// the estimators, in the same backward pass as the gradient. Cost: 1.03 to 1.05 plain steps. The first choice.
class DiagonalFisher final : public DiagonalStructure {
 public:
  explicit DiagonalFisher(const Needs& needs) : needs_(needs) {}
  Needs needs() const override { return needs_; }
  at::Tensor variance(const GradientStatistics& statistics) const override { return statistics.diagonal; }

 private:
  Needs needs_;
};

/// C = diag(F) without squares: a draw of full Fisher noise times an independent sign for each coordinate, which
/// removes the correlations and keeps the variances. Not Gaussian, but a sum of M independent terms. Cost: one more
/// backward pass (1.7 plain steps). For layers whose squares are not available, and to check the other estimators.
class SignedDiagonalFisher final : public NoiseStructure {
 public:
  explicit SignedDiagonalFisher(Labels labels) {
    needs_.extra = labels == Labels::kData ? ExtraBackward::kSigned : ExtraBackward::kSampledLabels;
  }
  Needs needs() const override { return needs_; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const override {
    auto noise = at::empty_like(statistics.draw);
    fill_signs(noise, stream);
    return noise.mul_(statistics.draw);
  }

 private:
  Needs needs_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_diag_fisher(const NoiseOptions& options, bool batch_statistics) {
  if (options.estimator == "signs") return std::make_unique<SignedDiagonalFisher>(options.labels);
  return std::make_unique<DiagonalFisher>(squares_needs(options, batch_statistics));
}

}  // namespace covnoise
