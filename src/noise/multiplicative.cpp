#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = sigma^2 diag(g)^2, appendix A.8 of the paper: the gradient becomes g (1 + sigma xi). Needs no statistics, so it
/// costs nothing; sigma replaces s. A control without per-example information.
class Multiplicative final : public DiagonalStructure {
 public:
  explicit Multiplicative(double sigma) : sigma_(sigma) {}
  Needs needs() const override { return {}; }
  bool scaled_by_batch() const override { return false; }
  at::Tensor variance(const GradientStatistics& statistics) const override {
    return statistics.gradient.square().mul_(sigma_ * sigma_);
  }

 private:
  double sigma_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_multiplicative(const NoiseOptions& options, bool) {
  return std::make_unique<Multiplicative>(options.sigma);
}

}  // namespace covnoise
