#include "train/loop/training_step.h"

#include "covnoise/nn/internal/other_weights.h"
#include "covnoise/train/adamw.h"
#include "covnoise/train/sgd.h"
#include "train/loop/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise {
namespace {

[[noreturn]] void diverged(const std::string& what, const StepContext& context, const Config& config) {
  throw Diverged(fmt::format("{} is not finite at step {} (learning rate {:g}): training diverged; {}", what,
                             context.step, context.lr, advice_for_loss(config)),
                 context.step);
}

/// Names the first parameter for which `buffer` has a value that is not finite.
[[noreturn]] void diverged_in(const FlatParameters& parameters, const at::Tensor& buffer, const char* what,
                              const StepContext& context, const Config& config) {
  for (const auto& entry : parameters.entries()) {
    if (!parameters.view(buffer, entry).isfinite().all().item<bool>()) diverged(what + entry.name, context, config);
  }
  diverged(std::string(what) + "some parameter", context, config);
}

/// Double [5]; undefined values are those of a step without noise or clipping.
at::Tensor details_of(const at::Tensor& noise_norm, const at::Tensor& clip, const at::Tensor& noise_clip,
                      const at::Tensor& weight_norm, const at::Tensor& clipped_scale, double scale) {
  const auto number = [&](const at::Tensor& value, double otherwise) {
    return value.defined() ? value.to(at::kDouble) : at::full({}, otherwise, weight_norm.options().dtype(at::kDouble));
  };
  return at::stack({number(noise_norm, 0), number(clip, 1), number(noise_clip, 1), number(weight_norm, 0),
                    number(clipped_scale, scale)});
}

std::unique_ptr<Optimizer> make_optimizer(const Config& config, FlatParameters& parameters) {
  const auto& train = config.train;
  const bool clip_noise = config.noise.clip_norm == 0;
  if (train.optimizer == "adamw") {
    const AdamWOptions options{train.momentum,  train.beta2,    train.eps, train.weight_decay,
                               train.clip_norm, train.no_decay, clip_noise};
    return std::make_unique<AdamW>(parameters, options);
  }
  const SgdOptions options{train.momentum,  train.nesterov, train.weight_decay,
                           train.clip_norm, train.no_decay, clip_noise};
  return std::make_unique<Sgd>(parameters, options);
}

}  // namespace

TrainingStep::TrainingStep(const Config& config, Model& model, FlatParameters& parameters, const Schedule& schedule,
                           Communicator* communicator, const BucketOptions& buckets)
    : TrainingStep(
          config, model,
          [&model](const GradientPass::Examples& examples) {
            return cross_entropy(model.forward(examples[0]), examples[1]);
          },
          make_structure(config.noise, model_info(config.model).batch_statistics), parameters, schedule, communicator,
          buckets) {}

TrainingStep::TrainingStep(const Config& config, torch::nn::Module& module, GradientPass::Loss loss,
                           std::unique_ptr<NoiseStructure> structure, FlatParameters& parameters,
                           const Schedule& schedule, Communicator* communicator, const BucketOptions& buckets)
    : config_(config),
      parameters_(parameters),
      schedule_(schedule),
      matched_(schedule.of_matched_batch(config.noise)),
      pass_(module, std::move(loss), parameters,
            {config.noise.estimator_group(),
             config.train.micro_batch,
             {},
             config.train.sharp_micro_batches() ? config.train.sharpness : 0,
             config.train.sharpness_batch}),
      injection_(config.noise, std::move(structure)),
      penalty_(config.noise, module, parameters),
      optimizer_(make_optimizer(config, parameters)),
      all_reduce_(communicator ? std::make_unique<GradientAllReduce>(*communicator, config, module, parameters,
                                                                     injection_, buckets)
                               : nullptr) {
  for (const auto& [name, layer] : normalisation_layers(module))
    ghost_batches_.emplace_back(layer, layer->ghost_batch());
  if (injection_.placement() == Placement::kWeights) weight_noise_.emplace(parameters, config.noise.radius);
}

void TrainingStep::set_ghost_batches(std::int64_t batch) {
  for (const auto& [layer, ghost] : ghost_batches_) layer->set_ghost_batch(std::min(ghost, batch));  // 0 stays 0
}

bool TrainingStep::has_weight_noise(std::int64_t steps) const {
  return weight_noise_ && steps > 0 && injection_.scale(context(steps - 1)) != 0;
}

bool TrainingStep::is_sharp(std::int64_t step) const {
  const auto& train = config_.train;
  return train.sharpness > 0 && step % train.sharpness_every == 0 && schedule_.fraction(step) >= train.sharpness_after;
}

bool TrainingStep::ever_sharp() const {
  for (std::int64_t step = schedule_.total_steps(); step-- > 0;) {
    if (is_sharp(step)) return true;
  }
  return false;
}

StepContext TrainingStep::context(std::int64_t step) const {
  StepContext context;
  context.seed = config_.seed;
  context.step = step;
  context.fraction = schedule_.fraction(step);
  context.batch = schedule_.batch(schedule_.epoch_of(step));
  context.lr = schedule_.lr(step);
  context.momentum = config_.train.momentum;
  context.clip_norm = config_.train.clip_norm;
  context.match_factor = matched_.factor(step);
  return context;
}

void TrainingStep::launch(std::int64_t step, const ExampleSource& source, const at::Tensor& indices, bool details,
                          const at::Tensor& next) {
  Launched launched;
  launched.context = context(step);
  set_ghost_batches(launched.context.batch);
  const auto signs = penalty_.signs(launched.context);
  const bool penalised = signs.size > 0;
  const Shard shard =
      all_reduce_ ? all_reduce_->begin(launched.context) : Shard{0, launched.context.batch, launched.context.batch};
  const auto& [statistics, metrics, signed_sum] =
      run_pass(source, indices, penalised ? indices : next, launched.context, shard, signs);
  const torch::NoGradGuard no_grad;
  launched.squares = statistics.diagonal.defined() && statistics.factors.empty();
  launched.centred = statistics.centred;
  launched.model_labels = injection_.needs(launched.context).labels == Labels::kModel;
  launched.metrics = metrics.clone();
  at::Tensor noise_norm;
  StepNoise noise = all_reduce_ ? all_reduce_->combine(statistics, launched.metrics, noise_norm)
                                : injection_.draw(statistics, launched.context);
  if (penalised) {
    const auto second_pass = [&](const GradientPass::GroupSigns& alone) {
      return run_pass(source, indices, next, launched.context, shard, alone).signed_sum;
    };
    const auto added = penalty_.add(launched.context, signed_sum, second_pass, [this](const at::Tensor& tensor) {
      if (all_reduce_) all_reduce_->communicator().all_reduce(tensor);
    });
    if (details) launched.penalty = at::stack({added.value, added.norm.to(at::kDouble)});
  }
  if (weight_noise_) {  // this step's was in the weights, and what was drawn is for the next
    noise_norm = details ? weight_noise_->norm() : at::Tensor();
    weight_noise_->set_next(noise);
    noise = {};
  }
  const auto scale = injection_.clipped_scale(noise, parameters_.gradient(), launched.context);
  if (scale.defined()) noise = {noise.tensor() * scale, {}, 1, {}};
  if (noise.defined() && details) noise_norm = noise.tensor().norm();
  const auto [added, noise_clip] = injection_.clipped(noise);
  const auto clip = optimizer_->step(launched.context.lr, added, injection_.placement());
  if (details) {
    launched.details = details_of(noise_norm, clip, injection_.clips_noise() ? noise_clip : clip,
                                  parameters_.values().norm(), scale, injection_.scale(launched.context));
  }
  launched_.push_back(std::move(launched));
}

/// Where the gradient is taken; undefined: at theta. With sharpness along the momentum buffer v that is theta - rho v /
/// |v|, farther on the way of the weights (momentum-SAM, Becker, Altrock and Risse 2024): v is at hand, so it costs no
/// second pass.
at::Tensor TrainingStep::weights_of_pass(bool sharp) const {
  const auto noisy = weight_noise_ ? weight_noise_->weights() : at::Tensor();
  const auto& train = config_.train;
  if (!sharp || train.sharp_micro_batches()) return noisy;
  const torch::NoGradGuard no_grad;
  const auto v = optimizer_->momentum();
  return (noisy.defined() ? noisy : parameters_.values()) + v * (-train.sharpness / length_of(v));
}

/// Over the whole batch, or over this rank's shard. `next`: the examples of the pass after it, if known.
const GradientPass::Result& TrainingStep::run_pass(const ExampleSource& source, const at::Tensor& indices,
                                                   const at::Tensor& next, const StepContext& at, const Shard& shard,
                                                   const GradientPass::GroupSigns& signs) {
  if (weight_noise_ && injection_.scale(at) == 0) weight_noise_->clear();
  if (shard.count == 0) return all_reduce_->nothing();
  const std::int64_t epoch = schedule_.epoch_of(at.step);
  const bool sharp = is_sharp(at.step);
  const OtherWeights other_weights(parameters_, weights_of_pass(sharp));
  GradientPass::Batch batch;
  batch.size = shard.count;
  batch.load = [&](std::int64_t first, std::int64_t count) {
    before_micro_batch_();
    auto examples = source.load(indices.narrow(0, shard.first + first, count), epoch);
    const std::int64_t left = shard.count - (first + count);
    if (left > 0) source.prefetch(indices.narrow(0, shard.first + first + count, std::min(count, left)));
    if (left == 0 && next.defined())
      source.prefetch(next.narrow(0, shard.first, pass_.micro_batch(shard.count, is_sharp(at.step + 1))));
    return examples;
  };
  if (all_reduce_ && !signs.alone)
    batch.before_last = [&](const auto& add_host_callback) { all_reduce_->expect_last(pass_, add_host_callback); };
  const Needs needs = signs.alone ? Needs{} : injection_.needs(at);
  return pass_.run({needs, config_.seed, static_cast<std::uint32_t>(at.step), shard.first, signs, sharp}, batch);
}

StepResult TrainingStep::result_of(const Launched& launched, const StepMetrics& metrics) const {
  StepResult result;
  result.context = launched.context;
  const double m = static_cast<double>(launched.context.batch);
  result.loss = metrics.loss_sum / m;
  result.correct = static_cast<std::int64_t>(metrics.correct);
  result.grad_norm = metrics.gradient_norm;
  result.stop = metrics.stop_requests > 0;
  if (launched.squares) {
    const double trace = metrics.diagonal_sum;
    result.fisher_trace = trace;
    if (!launched.model_labels)  // otherwise the gradient is that of other labels
      result.covariance_trace = launched.centred ? trace : (trace - std::pow(result.grad_norm, 2)) * m / (m - 1);
  }
  if (launched.details.defined()) {
    const auto details = launched.details.cpu();
    const auto* values = details.data_ptr<double>();
    result.noise_norm = values[0], result.clip_factor = values[1], result.noise_clip_factor = values[2];
    result.weight_norm = values[3], result.scale = values[4];
  }
  if (launched.penalty.defined()) {
    const auto penalty = launched.penalty.cpu();
    result.penalty = penalty[0].item<double>(), result.penalty_norm = penalty[1].item<double>();
  }
  if (!std::isfinite(result.loss)) diverged("the loss", result.context, config_);
  if (!std::isfinite(result.grad_norm))
    diverged_in(parameters_, parameters_.gradient(), "the gradient of ", result.context, config_);
  return result;
}

std::vector<StepResult> TrainingStep::collect() {
  std::vector<StepResult> results;
  if (launched_.empty()) return results;
  const auto launched = std::move(launched_);
  launched_.clear();
  std::vector<at::Tensor> rows;
  for (const auto& one : launched) rows.push_back(one.metrics);
  const auto metrics = at::stack(rows).cpu();
  for (std::size_t i = 0; i < launched.size(); ++i)
    results.push_back(
        result_of(launched[i], StepMetrics::unpack(metrics[static_cast<std::int64_t>(i)].data_ptr<double>())));
  if (!std::isfinite(parameters_.values().sum(at::kDouble).item<double>()))
    diverged_in(parameters_, parameters_.values(), "the weight ", results.back().context, config_);
  return results;
}

}  // namespace covnoise
