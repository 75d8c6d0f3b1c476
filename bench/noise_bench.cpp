// The cost of noise: the step of each regime relative to the plain large-batch step, measured alternately in one run,
// and the peak memory that each step adds. bench_noise [--models NAME,...] [--batch N] [--micro N] [--rounds N]
// On a busy machine, `taskset -c 0` measures one thread by its own processor time.
#include "covnoise/core/memory.h"
#include "covnoise/core/threads.h"
#include "covnoise/nn/initialize.h"
#include "covnoise/nn/internal/other_weights.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "covnoise/noise/penalty.h"
#include "covnoise/train/sgd.h"
#include "support/clock.h"
#include "support/numbers.h"
#include "train/loop/weight_noise.h"

#include <fmt/format.h>
#include <torch/types.h>
#include <CLI/CLI.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {
namespace {

struct Regime {
  std::string name, structure, estimator;
  Placement placement = Placement::kUpdate;
  std::int64_t penalty_every = 0;  // 0: no ghost penalty
  double sharpness = 0;
  double clip_norm = 0, noise_clip_norm = 0;  // 0: none, together
};

const std::vector<Regime> kRegimes = {
    {"lb", "none", "auto"},
    {"ghost", "diag-fisher", "ghost"},
    {"exact", "diag-fisher", "exact"},
    {"clipped", "diag-fisher", "ghost", Placement::kUpdate, 0, 0, 1},
    {"apart", "diag-fisher", "ghost", Placement::kUpdate, 0, 0, 1, 1},
    {"weights", "diag-fisher", "ghost", Placement::kWeights},
    {"sharpness", "none", "auto", Placement::kUpdate, 0, 0.1},
    {"lb-trace", "fisher-trace", "exact"},
    {"lb-full", "full-fisher", "auto"},
    {"lb-kfac", "kfac", "exact"},
    {"penalty", "none", "auto", Placement::kUpdate, 1},
    {"penalty/2", "none", "auto", Placement::kUpdate, 2},
};

const std::string kAll = "lb,ghost,exact,clipped,apart,weights,sharpness,lb-trace,lb-full,lb-kfac,penalty,penalty/2";

struct Options {
  std::string models = "mlp,lenet,alexnet,resnet44,vgg16", regimes = kAll;
  std::int64_t batch = 1024, micro = 0;  // 0: the model's own
  int rounds = 3;
};

/// One network with everything a step needs.
class Step {
 public:
  Step(const std::string& model, const Regime& regime, const Options& options) : options_(options) {
    const bool grey = model == "mlp" || model == "lenet" || model == "f1";
    ModelOptions shape;
    shape.input = grey ? InputShape{1, 28, 28} : InputShape{3, 32, 32};
    shape.ghost_batch = 128;
    model_ = make_model(model, shape);
    if (options_.micro == 0) options_.micro = model_info(model).micro_batch;
    initialize(*model_, 0);
    model_->train();
    images_ = torch::randn({options.batch, shape.input.channels, shape.input.height, shape.input.width});
    labels_ = torch::randint(0, 10, {options.batch}, torch::kInt64);
    parameters_ = std::make_unique<FlatParameters>(*model_);
    pass_ = std::make_unique<GradientPass>(
        *model_, [this](const at::Tensor& x) { return model_->forward(x); }, *parameters_,
        GradientPass::Options{128, 0, {}, regime.sharpness});
    NoiseOptions noise;
    noise.structure = regime.structure;
    noise.estimator = regime.estimator;
    noise.penalty = regime.penalty_every > 0 ? 1e-3 : 0;
    noise.penalty_every = std::max<std::int64_t>(1, regime.penalty_every);
    steps_ = noise.penalty_every;
    noise.placement = regime.placement;
    noise.clip_norm = regime.noise_clip_norm;
    injection_ = std::make_unique<Injection>(noise, model_info(model).batch_statistics);
    penalty_ = std::make_unique<GhostPenalty>(noise, *model_, *parameters_);
    SgdOptions sgd;
    sgd.clip_norm = regime.clip_norm;
    sgd.clip_noise = !injection_->clips_noise();
    sgd_ = std::make_unique<Sgd>(*parameters_, sgd);
    if (regime.placement == Placement::kWeights) weight_noise_.emplace(*parameters_, /*radius=*/1e-3);
  }

  /// Of one step; the mean of as many as go by from one penalty to the next.
  double seconds() {
    const double start = bench::seconds();
    for (std::int64_t i = 0; i < steps_; ++i) take();
    return (bench::seconds() - start) / static_cast<double>(steps_);
  }

 private:
  void take() {
    StepContext step;
    step.step = count_++;
    step.batch = options_.batch;
    step.lr = 1e-4;
    step.momentum = 0.9;
    const auto signs = penalty_->signs(step);
    const auto statistics = statistics_of(step, signs);
    StepNoise noise = injection_->draw(statistics, step);
    if (signs.size > 0) {
      penalty_->add(step, pass_->signed_sum(), [&](const GradientPass::GroupSigns& alone) {
        pass_over({{}, 0, static_cast<std::uint32_t>(step.step), 0, alone});
        return pass_->signed_sum();
      });
    }
    if (weight_noise_) {
      weight_noise_->set_next(noise);
      noise = {};
    }
    sgd_->step(step.lr, injection_->clipped(noise).first, injection_->placement());
  }

  GradientStatistics statistics_of(const StepContext& step, const GradientPass::GroupSigns& signs) {
    const OtherWeights noisy_weights(*parameters_, weight_noise_ ? weight_noise_->weights() : at::Tensor());
    pass_over({injection_->needs(step), 0, static_cast<std::uint32_t>(step.step), 0, signs});
    return pass_->finish();
  }

  void pass_over(const GradientPass::Request& request) {
    pass_->begin(request);
    for (std::int64_t first = 0; first < options_.batch; first += options_.micro) {
      const std::int64_t n = std::min(options_.micro, options_.batch - first);
      pass_->add(images_.narrow(0, first, n), labels_.narrow(0, first, n));
    }
  }

  Options options_;
  std::shared_ptr<Model> model_;
  at::Tensor images_, labels_;
  std::unique_ptr<FlatParameters> parameters_;
  std::unique_ptr<GradientPass> pass_;
  std::unique_ptr<Injection> injection_;
  std::unique_ptr<GhostPenalty> penalty_;
  std::unique_ptr<Sgd> sgd_;
  std::optional<WeightNoise> weight_noise_;
  std::int64_t count_ = 0, steps_ = 1;
};

/// Peak resident memory in MiB of a process that takes two steps.
double peak_memory(const std::string& model, const Regime& regime, const Options& options) {
  const pid_t child = fork();  // before this process has started any thread
  if (child == 0) {
    set_threads(0);
    Step step(model, regime, options);
    step.seconds();
    step.seconds();
    _exit(0);
  }
  int status = 0;
  struct rusage usage = {};
  wait4(child, &status, 0, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::vector<Regime> chosen(const Options& options) {
  std::vector<Regime> result;
  for (const auto& regime : kRegimes) {
    if (("," + options.regimes + ",").find("," + regime.name + ",") != std::string::npos) result.push_back(regime);
  }
  return result;
}

void run(const Options& options) {
  const auto regimes = chosen(options);
  std::vector<std::string> models;
  for (const auto& name : CLI::detail::split(options.models, ',')) models.push_back(name);
  std::vector<std::vector<double>> memory;
  for (const auto& model : models) {
    memory.emplace_back();
    for (const auto& regime : regimes) memory.back().push_back(peak_memory(model, regime, options));
  }
  set_threads(0);
  std::printf("%-10s %-10s %10s %8s %10s %8s\n", "model", "regime", "ms", "over lb", "peak MiB", "over lb");
  for (std::size_t m = 0; m < models.size(); ++m) {
    std::vector<std::unique_ptr<Step>> steps;
    for (const auto& regime : regimes) steps.push_back(std::make_unique<Step>(models[m], regime, options));
    std::vector<std::vector<double>> times(steps.size());
    for (int round = -1; round < options.rounds; ++round) {  // the first warms up
      for (std::size_t i = 0; i < steps.size(); ++i) {
        const double seconds = steps[i]->seconds();
        if (round >= 0) times[i].push_back(seconds);
      }
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::vector<double> ratios;  // within a round: the load of the machine changes more slowly
      for (std::size_t r = 0; r < times[i].size(); ++r) ratios.push_back(times[i][r] / times[0][r]);
      std::printf("%-10s %-10s %10.1f %8.3f %10.0f %8.3f\n", models[m].c_str(), regimes[i].name.c_str(),
                  1e3 * bench::median(times[i]), bench::median(ratios), memory[m][i], memory[m][i] / memory[m][0]);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace covnoise

int main(int argc, char** argv) {
  covnoise::keep_freed_memory();
  covnoise::Options options;
  CLI::App app("The cost of noise over the plain large-batch step");
  app.add_option("--models", options.models, "names, separated by commas");
  app.add_option("--regimes", options.regimes, "of " + covnoise::kAll + "; lb first");
  app.add_option("--batch", options.batch);
  app.add_option("--micro", options.micro);
  app.add_option("--rounds", options.rounds);
  CLI11_PARSE(app, argc, argv);
  covnoise::run(options);
}
