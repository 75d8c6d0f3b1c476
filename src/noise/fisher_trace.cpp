#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = (Tr F / d) I, section 5.4 of the paper: isotropic noise with the total variance of diagonal Fisher noise. (The
/// main text and appendix A.8 differ on the factor; this one gives the variance that the text asks for.) Cost: as
/// diag-fisher. A control: the same strength without the structure.
class FisherTrace final : public DiagonalStructure {
 public:
  explicit FisherTrace(const Needs& needs) : needs_(needs) {}
  Needs needs() const override { return needs_; }
  bool adds_up_over_shards() const override {
    return false;
  }  // it would, but all ranks can draw the same sample instead
  bool needs_only_trace() const override { return true; }
  at::Tensor variance(const GradientStatistics& statistics) const override {
    return equal_variance(statistics, statistics.diagonal.sum().div_(statistics.parameters->count()));
  }

 private:
  Needs needs_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_fisher_trace(const NoiseOptions& options, bool batch_statistics) {
  return std::make_unique<FisherTrace>(squares_needs(options, batch_statistics));
}

}  // namespace covnoise
