#include "covnoise/train/evaluate.h"

#include "train/loop/run_task.h"

namespace covnoise {

Evaluation evaluate(Model& model, const Loader& loader, Communicator* ranks) {
  const auto loss = [&model](const GradientPass::Examples& examples) {
    return cross_entropy(model.forward(examples[0]), examples[1]);
  };
  return evaluate_task(model, loss, LoaderSource(loader), ranks);
}

}  // namespace covnoise
