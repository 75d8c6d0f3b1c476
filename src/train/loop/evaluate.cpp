#include "covnoise/train/evaluate.h"

#include "train/loop/run_task.h"

namespace covnoise {

Evaluation evaluate(Model& model, const Loader& loader, Communicator* ranks,
                    const std::function<void()>& before_slice) {
  const auto loss = [&](const GradientPass::Examples& examples) {
    before_slice();
    return cross_entropy(model.forward(examples[0]), examples[1]);
  };
  return evaluate_task(model, loss, LoaderSource(loader), ranks);
}

}  // namespace covnoise
