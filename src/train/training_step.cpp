#include "train/training_step.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

[[noreturn]] void diverged(const std::string& what, const StepContext& context) {
  throw Error(fmt::format("{} is not finite at step {} (rate {:g}): training diverged; lower train.lr, lengthen "
                          "train.warmup or set train.clip_norm",
                          what, context.step, context.lr),
              kDivergedExit);
}

void check_finite(const FlatParameters& parameters, const at::Tensor& buffer, const char* what,
                  const StepContext& context) {
  if (std::isfinite(buffer.sum(at::kDouble).item<double>())) return;
  for (const auto& entry : parameters.entries()) {
    if (!parameters.view(buffer, entry).isfinite().all().item<bool>()) diverged(what + entry.name, context);
  }
  diverged(std::string(what) + "some parameter", context);
}

}  // namespace

InjectionOptions injection_options(const Config& config) {
  const auto& noise = config.noise;
  InjectionOptions options;
  options.structure = noise.structure;
  options.structure_options.estimator = noise.estimator;
  options.structure_options.labels = noise.labels == "model" ? Labels::kModel : Labels::kData;
  options.structure_options.sigma = noise.sigma;
  options.structure_options.batch_statistics = model_info(config.model).batch_statistics;
  options.small_batch = noise.small_batch;
  options.match = noise.scale.match;
  options.scale = noise.scale.match ? 1 : noise.scale.factor;
  options.match_lr = noise.match_lr;
  options.match_momentum = noise.match_momentum;
  options.placement = noise.placement == "gradient" ? Placement::kGradient : Placement::kUpdate;
  options.stop_after = noise.stop_after;
  options.refresh = noise.refresh;
  return options;
}

TrainingStep::TrainingStep(const Config& config, Model& model, FlatParameters& parameters, const Schedule& schedule)
    : config_(config),
      parameters_(parameters),
      schedule_(schedule),
      collector_(model, [&model](const at::Tensor& images) { return model.forward(images); }, parameters,
                 {config.noise.small_batch, {}}),
      injection_(injection_options(config)),
      sgd_(parameters,
           {config.train.momentum, config.train.nesterov, config.train.weight_decay, config.train.clip_norm}) {}

StepContext TrainingStep::context(std::int64_t step) const {
  StepContext context;
  context.seed = config_.seed;
  context.step = step;
  context.fraction = schedule_.fraction(step);
  context.batch = schedule_.batch(schedule_.epoch_of(step));
  context.lr = schedule_.lr(step);
  context.momentum = config_.train.momentum;
  context.decay = schedule_.decay(step);
  return context;
}

StepResult TrainingStep::run(std::int64_t step, const Loader& loader, const at::Tensor& indices) {
  StepResult result;
  result.context = context(step);
  const std::int64_t epoch = schedule_.epoch_of(step), batch = indices.size(0);
  collector_.begin(injection_.needs(result.context), config_.seed, static_cast<std::uint32_t>(step));
  for (std::int64_t first = 0; first < batch; first += config_.train.micro_batch) {
    const auto slice = indices.narrow(0, first, std::min(config_.train.micro_batch, batch - first));
    const auto sums = collector_.add(loader.images(slice, epoch), loader.labels(slice));
    result.loss += sums.loss_sum / static_cast<double>(batch);
    result.correct += sums.correct;
  }
  const Statistics statistics = collector_.finish();
  if (!std::isfinite(result.loss)) diverged("the loss", result.context);
  check_finite(parameters_, statistics.gradient, "the gradient of ", result.context);
  result.grad_norm = statistics.gradient.norm().item<double>();
  if (statistics.diagonal.defined() && statistics.factors.empty()) {
    const double trace = statistics.diagonal.sum(at::kDouble).item<double>(), m = static_cast<double>(batch);
    result.fisher_trace = trace;
    result.covariance_trace = statistics.centred ? trace : (trace - std::pow(result.grad_norm, 2)) * m / (m - 1);
  }
  const auto noise = injection_.draw(statistics, result.context);
  if (noise.defined()) result.noise_norm = noise.norm().item<double>();
  sgd_.step(result.context.lr, noise, injection_.placement());
  check_finite(parameters_, parameters_.values(), "the weight ", result.context);
  return result;
}

}  // namespace covnoise
