#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = 0: the plain large batch (section 2.2.2 of the paper), the baseline of every comparison.
class NoNoise final : public DiagonalStructure {
 public:
  Needs needs() const override { return {}; }
  bool is_zero() const override { return true; }
  at::Tensor variance(const GradientStatistics& statistics) const override {
    return at::zeros_like(statistics.gradient);
  }
};

}  // namespace

std::unique_ptr<NoiseStructure> make_no_noise(const NoiseOptions&, bool) { return std::make_unique<NoNoise>(); }

}  // namespace covnoise
