#include "train/loop/run_progress.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <cmath>

namespace covnoise {

void Progress::add(const StepResult& result) {
  const double batch = static_cast<double>(result.context.batch);
  epoch_loss += result.loss * batch;
  epoch_correct += result.correct;
  epoch_examples += result.context.batch;
  if (!result.covariance_trace) return;
  constexpr double kKeep = 0.95;
  const double square = std::pow(result.grad_norm, 2) - *result.covariance_trace / batch;
  trace_average = kKeep * trace_average + (1 - kKeep) * *result.covariance_trace;
  square_average = kKeep * square_average + (1 - kKeep) * square;
}

void Progress::add_logged(const StepResult& result, double clip_norm) {
  epoch_clip_factors += result.clip_factor;
  epoch_noise_clip_factors += result.noise_clip_factor;
  epoch_gradient_factors += clip_norm > 0 && result.grad_norm > clip_norm ? clip_norm / result.grad_norm : 1;
  ++epoch_logged;
}

void Progress::start_epoch() {
  epoch_loss = epoch_clip_factors = epoch_noise_clip_factors = epoch_gradient_factors = 0;
  epoch_correct = epoch_examples = epoch_logged = 0;
}

std::optional<double> Progress::noise_scale() const {
  if (square_average <= 0) return std::nullopt;
  return trace_average / square_average;
}

nlohmann::json Progress::to_json() const {
  nlohmann::json json = {{"step", step},
                         {"epoch_loss", epoch_loss},
                         {"epoch_correct", epoch_correct},
                         {"epoch_examples", epoch_examples},
                         {"epoch_clip_factors", epoch_clip_factors},
                         {"epoch_noise_clip_factors", epoch_noise_clip_factors},
                         {"epoch_gradient_factors", epoch_gradient_factors},
                         {"epoch_logged", epoch_logged},
                         {"noisy_loss", noisy_loss},
                         {"best_accuracy", best_accuracy},
                         {"trace_average", trace_average},
                         {"square_average", square_average}};
  if (best_step) json["best_step"] = *best_step;
  return json;
}

Progress Progress::from_json(const nlohmann::json& json) try {
  Progress progress;
  progress.step = json.at("step");
  progress.epoch_loss = json.at("epoch_loss");
  progress.epoch_correct = json.at("epoch_correct");
  progress.epoch_examples = json.at("epoch_examples");
  progress.epoch_clip_factors = json.value("epoch_clip_factors", 0.0);  // not in checkpoints of version 0.2
  progress.epoch_noise_clip_factors = json.value("epoch_noise_clip_factors", 0.0);
  progress.epoch_gradient_factors = json.value("epoch_gradient_factors", 0.0);
  progress.noisy_loss = json.value("noisy_loss", 0.0);
  progress.epoch_logged = json.value("epoch_logged", std::int64_t{0});
  progress.best_accuracy = json.at("best_accuracy");
  progress.trace_average = json.at("trace_average");
  progress.square_average = json.at("square_average");
  if (json.contains("best_step")) progress.best_step = json.at("best_step").get<std::int64_t>();
  return progress;
} catch (const nlohmann::json::exception& error) {
  throw Error(fmt::format("the checkpoint's state is not one of this version of covnoise: {}", error.what()));
}

}  // namespace covnoise
