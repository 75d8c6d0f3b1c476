#include "train/loop/training_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

[[noreturn]] void diverged(const std::string& what, const StepContext& context) {
  throw Diverged(fmt::format("{} is not finite at step {} (rate {:g}): training diverged; lower train.lr, lengthen "
                             "train.warmup or set train.clip_norm",
                             what, context.step, context.lr),
                 context.step);
}

/// Names the first parameter of which `buffer` has a number that is not finite.
[[noreturn]] void diverged_in(const FlatParameters& parameters, const at::Tensor& buffer, const char* what,
                              const StepContext& context) {
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

TrainingStep::TrainingStep(const Config& config, Model& model, FlatParameters& parameters, const Schedule& schedule,
                           Communicator* communicator, const BucketOptions& buckets)
    : config_(config),
      parameters_(parameters),
      schedule_(schedule),
      pass_(model, [&model](const at::Tensor& images) { return model.forward(images); }, parameters,
            {config.noise.small_batch, {}}),
      passes_(pass_, config.train.micro_batch),
      injection_(injection_options(config)),
      sgd_(parameters,
           {config.train.momentum, config.train.nesterov, config.train.weight_decay, config.train.clip_norm}),
      all_reduce_(communicator ? std::make_unique<GradientAllReduce>(*communicator, config, model, parameters,
                                                                     injection_, buckets)
                               : nullptr) {}

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

void TrainingStep::launch(std::int64_t step, const Loader& loader, const at::Tensor& indices, bool details) {
  Launched launched;
  launched.context = context(step);
  const Needs needs = injection_.needs(launched.context);
  const auto& [statistics, numbers] = pass(needs, loader, indices, launched.context);
  const torch::NoGradGuard no_grad;
  launched.squares = statistics.diagonal.defined() && statistics.factors.empty();
  launched.centred = statistics.centred;
  launched.numbers = numbers.clone();
  const StepNoise noise = all_reduce_ ? all_reduce_->combine(statistics, launched.numbers, launched.noise_norm)
                                      : injection_.draw(statistics, launched.context);
  if (noise.defined() && details) launched.noise_norm = noise.tensor().norm();
  sgd_.step(launched.context.lr, noise, injection_.placement());
  launched_.push_back(std::move(launched));
}

/// Of the whole batch, or of this rank's share of it.
const PassedBatch& TrainingStep::pass(const Needs& needs, const Loader& loader, const at::Tensor& indices,
                                      const StepContext& at) {
  const Shard shard = all_reduce_ ? all_reduce_->begin(at) : Shard{0, at.batch, at.batch};
  pass_.begin(needs, config_.seed, static_cast<std::uint32_t>(at.step), shard.first);
  if (shard.count == 0) return all_reduce_->nothing();
  return passes_.run(needs, loader, indices.narrow(0, shard.first, shard.count), schedule_.epoch_of(at.step),
                     [&](const BatchPasses::AddHostCallback& add_host_callback) {
                       if (all_reduce_) all_reduce_->expect_last(pass_, add_host_callback);
                     });
}

StepResult TrainingStep::result_of(const Launched& launched, const double* numbers) const {
  StepResult result;
  result.context = launched.context;
  const double m = static_cast<double>(launched.context.batch);
  result.loss = numbers[0] / m;
  result.correct = static_cast<std::int64_t>(numbers[1]);
  result.grad_norm = numbers[2];
  result.stop = all_reduce_ && numbers[4] > 0;
  if (launched.squares) {
    result.fisher_trace = numbers[3];
    result.covariance_trace =
        launched.centred ? numbers[3] : (numbers[3] - std::pow(result.grad_norm, 2)) * m / (m - 1);
  }
  if (launched.noise_norm.defined()) result.noise_norm = launched.noise_norm.item<double>();
  if (!std::isfinite(result.loss)) diverged("the loss", result.context);
  if (!std::isfinite(result.grad_norm))
    diverged_in(parameters_, parameters_.gradient(), "the gradient of ", result.context);
  return result;
}

std::vector<StepResult> TrainingStep::collect() {
  std::vector<StepResult> results;
  if (launched_.empty()) return results;
  const auto launched = std::move(launched_);
  launched_.clear();
  std::vector<at::Tensor> rows;
  for (const auto& one : launched) rows.push_back(one.numbers);
  const auto numbers = at::stack(rows).cpu();
  for (std::size_t i = 0; i < launched.size(); ++i)
    results.push_back(result_of(launched[i], numbers[static_cast<std::int64_t>(i)].data_ptr<double>()));
  if (!std::isfinite(parameters_.values().sum(at::kDouble).item<double>()))
    diverged_in(parameters_, parameters_.values(), "the weight ", results.back().context);
  return results;
}

}  // namespace covnoise
