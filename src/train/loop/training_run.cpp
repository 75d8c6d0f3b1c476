#include "train/loop/training_run.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/nn/batch_norm.h"
#include "train/config/config_fields.h"
#include "train/files/snapshot.h"
#include "train/loop/averaged_statistics.h"
#include "train/ranks/shard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace covnoise {
namespace {

constexpr std::int64_t kExamplesOfStatistics = 4096;  // at least, or all of an epoch

/// For the first line of a run; empty without sharpness.
std::string sharpness_text(const TrainConfig& train) {
  if (train.sharpness == 0) return "";
  const auto begin =
      train.sharpness_after > 0 ? fmt::format(" after {:g} % of the training", 100 * train.sharpness_after) : "";
  const auto every = train.sharpness_every > 1 ? fmt::format(" every {} steps", train.sharpness_every) : "";
  const auto along = train.sharp_micro_batches() ? fmt::format("by micro-batches of {}", train.sharpness_batch)
                                                 : std::string("along the momentum");
  return fmt::format("; sharpness {:g} {}{}{}", train.sharpness, along, every, begin);
}

/// Which noise, for the first line of a run; empty without noise.
std::string noise_text(const NoiseOptions& noise, const NoiseStructure& structure, std::int64_t micro_batch) {
  if (structure.is_zero()) return "";
  std::string text = "; noise " + (noise.structure == "none" ? std::string("of your own") : noise.structure);
  if (noise.estimator == "ghost") text += fmt::format(" (ghost, groups of {})", noise.estimator_group());
  if (noise.estimator == "micro")
    text += fmt::format(" (micro, micro-batches of {})", micro_batch);
  else if (noise.estimator != "ghost" && noise.estimator != "auto")
    text += fmt::format(" ({})", noise.estimator);
  text += fmt::format(" in the {}", placement_name(noise.placement));
  const auto share = fmt::format(", for {:g} % of the training", 100 * noise.stop_after);
  if (noise.radius > 0) {
    text += fmt::format(", radius {:g}", noise.radius);
    if (structure.scaled_by_batch()) text += fmt::format(" for batches above {}", noise.small_batch);
    return text + share;
  }
  if (!structure.scaled_by_batch()) return text + fmt::format(", sigma {:g}", noise.sigma) + share;
  text += noise.scale.match ? ", scale matched to" : fmt::format(", scale {:g} for", noise.scale.factor);
  return text + fmt::format(" batch {}", noise.small_batch) + share;
}

/// The ghost penalty, for the first line of a run; empty without one.
std::string penalty_text(const NoiseOptions& noise) {
  if (noise.penalty == 0) return "";
  const auto every = noise.penalty_every > 1 ? fmt::format(", every {} steps", noise.penalty_every) : "";
  return fmt::format("; penalty {:g} on groups of {} of batches above {}{}", noise.penalty, noise.estimator_group(),
                     noise.small_batch, every);
}

}  // namespace

TrainingRun::TrainingRun(const TrainOptions& options, const std::function<RunTask(at::Device)>& make)
    : options_(options),
      config_(options.config),
      device_(training_device(options.config)),
      stream_(device_),
      task_(make(device_)),
      schedule_(options.config, task_.train->size()),
      parameters_(*task_.module),
      noise_text_(noise_text(config_.noise, *task_.structure, config_.train.micro_batch) + penalty_text(config_.noise)),
      step_(options.config, *task_.module, task_.loss, std::move(task_.structure), parameters_, schedule_,
            options.communicator, options.buckets),
      health_(config_, task_.guessing_loss, schedule_.warmup()) {
  task_.module->train();
  step_.set_before_micro_batch([this] { check_stop_now(); });
  const auto& train = config_.train;
  require(
      train.sharpness == 0 || step_.ever_sharp(),
      fmt::format("train.sharpness = {:g} has no effect: train.sharpness_after = {:g} and train.sharpness_every = {} "
                  "leave it none of the {} steps; lower them",
                  train.sharpness, train.sharpness_after, train.sharpness_every, schedule_.total_steps()));
  if (auto* all_reduce = step_.all_reduce())
    all_reduce->running().count_calls([this] { return losses_of_first(task_).values.numel(); });
  if (config_.train.ema == 0) return;
  refuse_foreign_normalisation(*task_.module);
  average_.emplace(parameters_, config_.train.ema);
}

void TrainingRun::check_stop_now() const {
  if (options_.stop_now()) throw StoppedNow();
}

void TrainingRun::restore_optimizer(const LoadedCheckpoint& latest) {
  const auto& stored = latest.checkpoint.optimizer;
  const auto damaged = [&](const std::string& what) {
    return fmt::format("checkpoint {} is damaged: optimizer.safetensors {}; remove it, and the previous one is used",
                       latest.path.string(), what);
  };
  const auto restore = [&](const std::string& name, const at::Tensor& slot) {
    const auto found = std::find_if(stored.begin(), stored.end(), [&](const auto& item) { return item.first == name; });
    require(found != stored.end(), damaged("has no " + name));
    require(found->second.sizes() == slot.sizes(),
            damaged(fmt::format("has {} of shape [{}], not [{}]", name, fmt::join(found->second.sizes(), ", "),
                                fmt::join(slot.sizes(), ", "))));
    slot.copy_(found->second);
  };
  for (const auto& [kind, buffer] : step_.optimizer().buffers()) {
    for (const auto& entry : parameters_.entries()) restore(kind + "." + entry.name, parameters_.view(buffer, entry));
  }
  if (step_.has_weight_noise(latest.step)) {
    for (const auto& [name, slot] : step_.weight_noise()->state_to_restore()) restore(name, slot);
  }
  if (!average_) return;
  const auto trained = parameters_.zeros();
  for (const auto& entry : parameters_.entries()) restore("weights." + entry.name, parameters_.view(trained, entry));
  average_->restore(trained);
}

std::string TrainingRun::load_initial_weights() {
  const auto line = covnoise::load_initial_weights(*task_.module, config_.train);
  if (auto* all_reduce = step_.all_reduce()) all_reduce->running().split();  // every rank has read all of them
  if (average_) average_.emplace(parameters_, config_.train.ema);            // from theta_0
  return line;
}

void TrainingRun::restore(const RankCheckpoint& latest) {
  const auto& checkpoint = latest.common.checkpoint;
  load_model_tensors(*task_.module, checkpoint.model);
  restore_optimizer(latest.common);
  // Statistics of other shards of the batch are useless: the next step measures new ones.
  if (latest.same_ranks || !step_.injection().drawn_by_shards())
    step_.injection().load_state(checkpoint.optimizer, parameters_);
  if (auto* all_reduce = step_.all_reduce()) all_reduce->load_state(latest.own);
  progress_ = Progress::from_json(checkpoint.state);
  step_.optimizer().set_steps_done(progress_.step);
  for (const auto& record : read_metrics(options_.out, progress_.step)) {
    seconds_before_ = record.value("seconds", seconds_before_);
    health_.recall(record);
  }
}

bool TrainingRun::stop_requested() { return step_.all_reduce() ? stop_agreed_ : options_.stop_requested(); }

std::unique_ptr<RunningStatistics::Whole> TrainingRun::whole_statistics() {
  auto* all_reduce = step_.all_reduce();
  return all_reduce ? std::make_unique<RunningStatistics::Whole>(all_reduce->running()) : nullptr;
}

std::unique_ptr<OtherWeights> TrainingRun::averaged_weights() {
  if (!average_) return nullptr;
  auto averaged = std::make_unique<OtherWeights>(parameters_, average_->values(), task_.module->buffers());
  measure_statistics_again();
  return averaged;
}

void TrainingRun::measure_statistics_again() {
  std::vector<at::Tensor> statistics;
  for (const auto& [name, layer] : normalisation_layers(*task_.module))
    statistics.insert(statistics.end(), {layer->running_mean, layer->running_var});
  if (statistics.empty()) return;
  if (measured_step_ == progress_.step) {
    for (std::size_t i = 0; i < statistics.size(); ++i) statistics[i].copy_(measured_[i]);
    return;
  }
  measure_statistics_now();
  measured_.clear();
  for (const auto& buffer : statistics) measured_.push_back(buffer.clone());
  measured_step_ = progress_.step;
}

void TrainingRun::measure_statistics_now() {
  const std::int64_t epoch = schedule_.epoch_of(std::max<std::int64_t>(0, progress_.step - 1));
  const std::int64_t batch = schedule_.batch(epoch), steps = schedule_.steps_per_epoch(epoch);
  const std::int64_t passes = std::min(steps, (kExamplesOfStatistics + batch - 1) / batch);
  step_.set_ghost_batches(batch);
  measure_statistics(*task_.module, interruptible_loss(), *task_.train, order_of(epoch).narrow(0, 0, passes * batch),
                     epoch, config_.train.micro_batch > 0 ? std::min(config_.train.micro_batch, batch) : batch);
}

void TrainingRun::leave_evaluated_network() {
  if (auto* all_reduce = step_.all_reduce()) all_reduce->running().sum_up();
  const torch::NoGradGuard no_grad;
  if (average_) {
    parameters_.values().copy_(average_->values());
    measure_statistics_again();
  }
  synchronize(device_);  // others read it in their own stream
}

Outcome TrainingRun::run(const RunFiles& files) {
  ProgressBar bar(schedule_.total_steps(), "training", options_.progress_bar);
  if (progress_.step == 0) save_snapshot();
  while (!finished()) {
    const std::int64_t epoch = schedule_.epoch_of(progress_.step);
    one_step(files.metrics);
    save_snapshot();
    bar.update(progress_.step, fmt::format("epoch {}/{}  {:.0f} {}s/s", epoch + 1, schedule_.epochs(),
                                           images_per_second(), task_.unit));
    if (progress_.step == schedule_.first_step(epoch) + schedule_.steps_per_epoch(epoch)) {
      bar.clear();
      end_epoch(epoch, files);
    }
    if (!finished() && stop_requested()) {
      bar.clear();
      collect(files.metrics);  // of steps that were launched before the signal came
      if (files.metrics) files.metrics->flush_synced();
      save(files, /*scheduled=*/false);
      return Outcome::kInterrupted;
    }
  }
  return Outcome::kFinished;
}

const at::Tensor& TrainingRun::order_of(std::int64_t epoch) {
  if (order_epoch_ != epoch) {
    order_ = task_.train->order(epoch);
    order_epoch_ = epoch;
  }
  return order_;
}

void TrainingRun::one_step(MetricsWriter* metrics) {
  const auto begin = Clock::now();
  const std::int64_t epoch = schedule_.epoch_of(progress_.step), batch = schedule_.batch(epoch);
  const auto& order = order_of(epoch);
  const std::int64_t steps = schedule_.steps_per_epoch(epoch), place = progress_.step - schedule_.first_step(epoch);
  const std::int64_t every =
      config_.train.log_every > 0 ? config_.train.log_every : std::max<std::int64_t>(1, steps / 10);
  const bool logged = (progress_.step + 1) % every == 0;
  auto* all_reduce = step_.all_reduce();
  if (all_reduce) all_reduce->request_stop(options_.stop_requested());
  step_.launch(progress_.step, *task_.train, order.narrow(0, place * batch, batch), logged,
               place + 1 < steps ? order.narrow(0, (place + 1) * batch, batch) : at::Tensor());
  ++progress_.step;
  if (average_) average_->add(progress_.step);
  training_images_ += batch;
  // A GPU continues with the next step in the meantime, unless results are needed now.
  StepResult last;
  if (logged || device_.is_cpu() || place + 1 == steps || (!all_reduce && options_.stop_requested()))
    last = collect(metrics);
  training_seconds_ += std::chrono::duration<double>(Clock::now() - begin).count();
  if (logged) progress_.add_logged(last, config_.train.clip_norm);
  if (logged && metrics) log_step(last, *metrics);
}

StepResult TrainingRun::collect(MetricsWriter* metrics) {
  std::vector<StepResult> results;
  try {
    results = step_.collect();
  } catch (const Diverged& error) {
    if (!metrics) throw;
    // The record belongs to the failed step, which no checkpoint holds: resuming from one removes it.
    metrics->write({{"kind", "diverged"},
                    {"step", error.step() + 1},
                    {"epoch", schedule_.epoch_of(error.step()) + 1},
                    {"message", error.what()}});
    metrics->flush_synced();
    throw;
  }
  for (const auto& result : results) {
    progress_.add(result);
    stop_agreed_ = stop_agreed_ || result.stop;
  }
  return results.empty() ? StepResult{} : results.back();
}

void TrainingRun::save(const RunFiles& files, bool scheduled) {
  Checkpoint checkpoint;
  checkpoint.state = progress_.to_json();
  std::vector<NamedTensor> of_ranks;
  if (auto* all_reduce = step_.all_reduce()) {
    of_ranks = gather_rank_states(all_reduce->communicator(), all_reduce->state());
    checkpoint.state["ranks"] = all_reduce->communicator().size();
  }
  const auto whole = whole_statistics();
  if (!files.store) return;
  add_provenance(checkpoint.state, files.provenance, files.metrics->records());
  const auto averaged = averaged_weights();
  checkpoint.model = model_tensors(*task_.module);
  for (const auto& entry : parameters_.entries()) {
    if (averaged) checkpoint.optimizer.emplace_back("weights." + entry.name, parameters_.view(averaged->own(), entry));
  }
  for (const auto& [kind, buffer] : step_.optimizer().buffers()) {
    for (const auto& entry : parameters_.entries())
      checkpoint.optimizer.emplace_back(kind + "." + entry.name, parameters_.view(buffer, entry));
  }
  if (!step_.all_reduce() || !step_.injection().drawn_by_shards()) {
    for (auto& item : step_.injection().state()) checkpoint.optimizer.push_back(std::move(item));
  }
  if (const auto* noise = step_.weight_noise()) {
    for (auto& item : noise->state()) checkpoint.optimizer.push_back(std::move(item));
  }
  checkpoint.optimizer.insert(checkpoint.optimizer.end(), of_ranks.begin(), of_ranks.end());
  files.store->save(checkpoint, progress_.step, scheduled, progress_.best_step);
}

void TrainingRun::save_snapshot() {
  const std::int64_t every = config_.train.snapshot_every;
  if (every == 0 || progress_.step % every != 0) return;
  const auto whole = whole_statistics();
  if (options_.communicator && options_.communicator->rank() != 0) return;
  const auto averaged = averaged_weights();
  const RunFolder folder{options_.out};
  create_folders(folder.snapshots());
  write_snapshot(folder.snapshot(progress_.step), model_tensors(*task_.module));
}

std::string TrainingRun::summary() const {
  const std::int64_t batch = schedule_.batch(0), dropped = task_.train->size() % batch;
  return fmt::format(
      "{} on {}, regime {}, seed {}: {} parameters, {} epoch{} of {} step{} of {} {}s, learning rate {:g}{}{}{}",
      config_.model, config_.data.name, config_.regime, config_.seed, parameters_.count(), schedule_.epochs(),
      schedule_.epochs() == 1 ? "" : "s", schedule_.steps_per_epoch(0), schedule_.steps_per_epoch(0) == 1 ? "" : "s",
      batch, task_.unit, schedule_.base_lr(0),
      dropped > 0 ? fmt::format(" (the last incomplete batch, {} {}{}, is dropped)", dropped, task_.unit,
                                dropped == 1 ? "" : "s")
                  : "",
      sharpness_text(config_.train), noise_text_);
}

}  // namespace covnoise
