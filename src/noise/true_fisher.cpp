#include "noise/structures.h"

namespace covnoise {
namespace {

/// C = the model's own Fisher matrix, (1/M) sum_i E_y[grad log p(y|x_i) grad log p(y|x_i)^T], equation 8 of the paper:
/// the backward pass of the losses of labels sampled from the model is the draw, (1/sqrt M) sum_i grad log p(y_i|x_i).
/// Scores have mean zero under the model, so no sign is needed. Cost: one more backward pass (1.7 plain steps). To
/// compare with the empirical Fisher matrix.
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

std::unique_ptr<NoiseStructure> make_true_fisher(const NoiseOptions&, bool) { return std::make_unique<TrueFisher>(); }

}  // namespace covnoise
