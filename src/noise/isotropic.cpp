#include "noise/structures.h"

#include "covnoise/ops/random.h"

namespace covnoise {
namespace {

/// C = sigma^2 I, the simplest noise (figure 1 of the paper). Needs no statistics; sigma replaces s. A control of known
/// strength.
class Isotropic final : public NoiseStructure {
 public:
  explicit Isotropic(double sigma) : sigma_(sigma) {}
  Needs needs() const override { return {}; }
  bool scaled_by_batch() const override { return false; }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const override {
    auto noise = at::empty_like(statistics.gradient);
    fill_normal(noise, stream);
    return noise.mul_(sigma_);
  }

 private:
  double sigma_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_isotropic(const NoiseOptions& options, bool) {
  return std::make_unique<Isotropic>(options.sigma);
}

}  // namespace covnoise
