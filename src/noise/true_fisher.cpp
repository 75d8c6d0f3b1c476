#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = the model's own Fisher matrix, (1/M) sum_i E_y[grad log p(y|x_i) grad log p(y|x_i)^T]: the backward of the
/// losses of labels drawn from the model is the draw, (1/sqrt M) sum_i grad log p(y_i|x_i). Scores have mean zero under
/// the model, so no sign is needed.
class TrueFisher final : public NoiseStructure {
 public:
  Needs needs() const override {
    Needs needs;
    needs.extra = ExtraBackward::kSampledLabels;
    return needs;
  }
  at::Tensor sample(const GradientStatistics& statistics, const RandomStream&) const override {
    return statistics.draw;
  }
};

}  // namespace

std::unique_ptr<NoiseStructure> make_true_fisher(const StructureOptions&) { return std::make_unique<TrueFisher>(); }

}  // namespace covnoise
