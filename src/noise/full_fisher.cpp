#include "covnoise/core/error.h"
#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = F = (1/M) sum_i g_i g_i^T, equation 5 of the paper: the backward pass of the signed losses is the draw, (1/sqrt
/// M) sum_i sigma_i g_i with sigma_i = +-1, whose covariance is exactly F (appendix A.9). Weighting examples by
/// independent Gaussians (Hoffer et al., 2017) is the same noise. Cost: one more backward pass (1.7 plain steps). For
/// comparisons with the covariance of small batches as it is, correlations included.
class FullFisher final : public NoiseStructure {
 public:
  Needs needs() const override {
    Needs needs;
    needs.extra = ExtraBackward::kSigned;
    return needs;
  }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream&) const override {
    return statistics.draw;
  }
};

}  // namespace

std::unique_ptr<NoiseStructure> make_full_fisher(const NoiseOptions& options, bool) {
  require(options.labels == Labels::kData,
          "noise.structure = \"full-fisher\" uses the data's labels; with the model's, noise.labels = \"model\", it is "
          "\"true-fisher\"");
  return std::make_unique<FullFisher>();
}

}  // namespace covnoise
