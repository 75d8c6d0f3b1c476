#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = 0: the plain large batch.
class NoNoise final : public NoiseStructure {
 public:
  Needs needs() const override { return {}; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream&) const override {
    return at::zeros_like(statistics.gradient);
  }
};

}  // namespace

std::unique_ptr<NoiseStructure> make_no_noise(const StructureOptions&) { return std::make_unique<NoNoise>(); }

}  // namespace covnoise
