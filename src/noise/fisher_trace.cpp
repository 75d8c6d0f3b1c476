#include "noise/structures.h"

#include "covnoise/ops/random.h"

namespace covnoise {
namespace {

/// C = (Tr F / d) I: isotropic noise of the diagonal Fisher noise's total variance. (The paper's main text and appendix
/// differ on the factor; this is the one that gives the variance its text asks for.)
class FisherTrace final : public NoiseStructure {
 public:
  explicit FisherTrace(const Needs& needs) : needs_(needs) {}
  Needs needs() const override { return needs_; }
  bool adds_up_over_parts() const override { return false; }  // it would, but all ranks can draw the same instead
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const override {
    auto noise = at::empty_like(statistics.diagonal);
    fill_normal(noise, stream);
    const auto mean = statistics.diagonal.sum().div_(statistics.parameters->count());
    return noise.mul_(mean.sqrt_());
  }

 private:
  Needs needs_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_fisher_trace(const StructureOptions& options) {
  return std::make_unique<FisherTrace>(squares_needs(options));
}

}  // namespace covnoise
