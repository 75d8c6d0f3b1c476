// What a run writes into its metrics and says while it trains.
#include "train/loop/training_run.h"

#include <fmt/format.h>

#include <cmath>

namespace covnoise {
namespace {

/// An epoch's record for the user.
std::string epoch_line(const nlohmann::ordered_json& record, std::int64_t epochs, const char* unit) {
  const auto number = [&](const char* key) { return record.at(key).get<double>(); };
  const auto accuracy = [&](const char* key) {
    return record.contains(key) ? fmt::format("  accuracy {:.2f} %", 100 * number(key)) : "";
  };
  std::string line = fmt::format("epoch {:>3}/{}  train loss {:.4f}{}", record.at("epoch").get<int>(), epochs,
                                 number("train_loss"), accuracy("train_accuracy"));
  if (record.contains("test_loss"))
    line += fmt::format("  test loss {:.4f}{}", number("test_loss"), accuracy("test_accuracy"));
  if (record.contains("val_accuracy")) line += fmt::format("  held out {:.2f} %", 100 * number("val_accuracy"));
  return line + fmt::format("  lr {:g}  {:.0f} {}s/s", number("lr"), number("images_per_s"), unit);
}

}  // namespace

double TrainingRun::images_per_second() const {
  return training_seconds_ > 0 ? static_cast<double>(training_images_) / training_seconds_ : 0;
}

void TrainingRun::log_step(const StepResult& result, MetricsWriter& metrics) {
  const auto& context = result.context;
  const double rate = result.clip_factor * context.lr / (1 - context.momentum);
  nlohmann::ordered_json record = {{"kind", "step"},
                                   {"step", progress_.step},
                                   {"epoch", schedule_.epoch_of(context.step) + 1},
                                   {"train_loss", result.loss}};
  add_accuracy(record, "train_accuracy", static_cast<double>(result.correct) / static_cast<double>(context.batch));
  record.update({{"lr", context.lr},
                 {"batch", context.batch},
                 {"grad_norm", result.grad_norm},
                 {"noise_norm", result.noise_norm},
                 {"weight_norm", result.weight_norm}});
  if (config_.train.clip_norm > 0) record["clip_factor"] = result.clip_factor;
  if (step_.injection().clips_noise()) record["noise_clip_factor"] = result.noise_clip_factor;
  if (result.penalty) record["penalty"] = *result.penalty;
  if (result.penalty_norm) record["penalty_norm"] = *result.penalty_norm;
  if (result.fisher_trace) record["fisher_trace"] = *result.fisher_trace;
  if (const auto scale = progress_.noise_scale(); scale && result.fisher_trace) record["noise_scale"] = *scale;
  if (config_.train.optimizer == "sgd") {  // of which temperatures are defined
    record["temperature"] = rate / static_cast<double>(context.batch);
    if (!step_.weight_noise())  // noise in the weights does not diffuse
      record["noise_temperature"] = result.noise_clip_factor * result.noise_clip_factor / result.clip_factor *
                                    step_.injection().noise_temperature(context, result.scale);
  }
  record["images_per_s"] = images_per_second();
  record["seconds"] = seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  metrics.write(record);
}

nlohmann::ordered_json TrainingRun::evaluation(std::int64_t epoch, double& judged) {
  nlohmann::ordered_json record = nlohmann::ordered_json::object();
  const std::int64_t every = config_.train.eval_every;
  if (!finished() && (every == 0 || (epoch + 1) % every != 0)) return record;
  const auto whole = whole_statistics();
  const auto averaged = averaged_weights();
  if (config_.train.eval_train == "every" || (config_.train.eval_train == "last" && finished())) {
    const auto train = evaluate_on(*task_.train);
    record["train_eval_loss"] = train.loss;
    add_accuracy(record, "train_eval_accuracy", train.accuracy);
  }
  // Without right answers a lower loss is better; the best checkpoint has the largest number.
  const auto merit = [&](const Evaluation& of) { return task_.answers ? of.accuracy : std::exp(-of.loss); };
  const auto test = evaluate_on(*task_.test);
  record["test_loss"] = test.loss;
  add_accuracy(record, "test_accuracy", test.accuracy);
  judged = merit(test);
  if (task_.validation) {
    const auto validation = evaluate_on(*task_.validation);
    judged = merit(validation);
    add_accuracy(record, "val_accuracy", validation.accuracy);
    if (!task_.answers) record["val_loss"] = validation.loss;
  }
  return record;
}

Evaluation TrainingRun::evaluate_on(const ExampleSource& source) {
  return evaluate_task(*task_.module, interruptible_loss(), source, options_.communicator);
}

GradientPass::Loss TrainingRun::interruptible_loss() {
  return [this](const GradientPass::Examples& examples) {
    check_stop_now();
    return task_.loss(examples);
  };
}

void TrainingRun::add_accuracy(nlohmann::ordered_json& record, const char* key, double accuracy) const {
  if (task_.answers) record[key] = accuracy;
}

void TrainingRun::end_epoch(std::int64_t epoch, const RunFiles& files) {
  const double examples = static_cast<double>(progress_.epoch_examples);
  nlohmann::ordered_json record = {{"kind", "epoch"},
                                   {"step", progress_.step},
                                   {"epoch", epoch + 1},
                                   {"train_loss", progress_.epoch_loss / examples}};
  add_accuracy(record, "train_accuracy", static_cast<double>(progress_.epoch_correct) / examples);
  const double speed = images_per_second();
  double judged = -1;  // never the best
  record.update(evaluation(epoch, judged));
  record["lr"] = schedule_.lr(progress_.step - 1);
  record["batch"] = schedule_.batch(epoch);
  record["weight_norm"] = parameters_.values().norm().item<double>();
  if (config_.train.clip_norm > 0 && progress_.epoch_logged > 0)
    record["clip_factor"] = progress_.epoch_clip_factors / static_cast<double>(progress_.epoch_logged);
  if (step_.injection().clips_noise() && progress_.epoch_logged > 0)
    record["noise_clip_factor"] = progress_.epoch_noise_clip_factors / static_cast<double>(progress_.epoch_logged);
  record["images_per_s"] = speed;
  record["seconds"] = seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
  if (files.metrics) {
    files.metrics->write(record);
    files.metrics->flush_synced();
  }
  options_.say(epoch_line(record, schedule_.epochs(), task_.unit));
  check_health(epoch, progress_.epoch_loss / examples, files.metrics);
  progress_.start_epoch();
  training_seconds_ = 0;
  training_images_ = 0;
  if (!finished() && (epoch + 1) % config_.train.checkpoint_every != 0) return;
  if (judged > progress_.best_accuracy) {
    progress_.best_accuracy = judged;
    progress_.best_step = progress_.step;
  }
  save(files, /*scheduled=*/true);
}

void TrainingRun::check_health(std::int64_t epoch, double train_loss, MetricsWriter* metrics) {
  const Health::Epoch ended{epoch, train_loss, step_.has_noise(schedule_.first_step(epoch)),
                            step_.has_noise(progress_.step - 1)};
  for (const auto& [about, message] : health_.check(ended, progress_)) {
    options_.say("warning: " + message);
    if (!metrics) continue;
    metrics->write(
        {{"kind", "warning"}, {"step", progress_.step}, {"epoch", epoch + 1}, {"about", about}, {"message", message}});
    metrics->flush_synced();
  }
}

}  // namespace covnoise
