#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = F = (1/M) sum_i g_i g_i^T: the backward of the signed losses is the draw, (1/sqrt M) sum_i sigma_i g_i with
/// sigma_i = +-1, whose covariance is exactly F.
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

std::unique_ptr<NoiseStructure> make_full_fisher(const StructureOptions&) { return std::make_unique<FullFisher>(); }

}  // namespace covnoise
