#include "noise/structures.h"

#include <ATen/ATen.h>

namespace covnoise {
namespace {

/// C = sigma^2 I, the simplest noise (figure 1 of the paper). Needs no statistics; sigma replaces s. A control of known
/// strength.
class Isotropic final : public DiagonalStructure {
 public:
  explicit Isotropic(double sigma) : sigma_(sigma) {}
  Needs needs() const override { return {}; }
  bool scaled_by_batch() const override { return false; }
  at::Tensor variance(const GradientStatistics& statistics) const override {
    return equal_variance(statistics, at::scalar_tensor(sigma_ * sigma_, at::kDouble));
  }

 private:
  double sigma_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_isotropic(const NoiseOptions& options, bool) {
  return std::make_unique<Isotropic>(options.sigma);
}

}  // namespace covnoise
