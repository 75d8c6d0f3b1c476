#include "covnoise/analysis/variance.h"

#include "analysis/layer_groups.h"
#include "analysis/sampling.h"
#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/noise/gradient_pass.h"
#include "covnoise/noise/injection.h"
#include "covnoise/train/defaults.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace covnoise {
namespace {

constexpr std::int64_t kBlock = 8;

void check(const VarianceOptions& o) {
  require(o.samples >= 2 * kBlock && o.samples % kBlock == 0,
          fmt::format("the number of samples, {}, must be a multiple of {} and at least {}", o.samples, kBlock,
                      2 * kBlock));
  require(o.small_batch >= 1, fmt::format("the small batch, {}, must have at least one example", o.small_batch));
  require(o.large_batch > o.small_batch && o.large_batch % o.small_batch == 0,
          fmt::format("the large batch, {}, is not a multiple of the small batch, {}", o.large_batch, o.small_batch));
}

/// `lb-diag:exact` as a configuration for this network, its noise on and its statistics those of the batch itself.
Config regime_config(const Config& run, const std::string& name, const VarianceOptions& options) {
  const auto colon = name.find(':');
  const std::string regime = name.substr(0, colon);
  std::vector<std::string> overrides = {
      "model=" + run.model,
      "regime=" + regime,
      "train.precision=" + run.train.precision,
      fmt::format("train.batch={}", regime == "sb" ? options.small_batch : options.large_batch),
      "train.batch_schedule=[]",
      fmt::format("train.ghost_batch={}", options.small_batch),
      fmt::format("noise.small_batch={}", options.small_batch),
      "noise.stop_after=1",
      "noise.refresh=1"};
  if (colon != std::string::npos) overrides.push_back("noise.estimator=" + name.substr(colon + 1));
  Config config = load_config(std::nullopt, overrides);
  resolve_defaults(config);
  return config;
}

/// Draws directions g + n of one regime and keeps, for every layer, the variances of blocks of them.
class Sampler {
 public:
  Sampler(const Config& config, const VarianceOptions& options, Model& model, FlatParameters& parameters)
      : config_(config),
        options_(options),
        parameters_(parameters),
        groups_(layer_groups(parameters)),
        pass_(model, [&model](const at::Tensor& x) { return model.forward(x); }, parameters, {options.small_batch}),
        injection_(config.noise, model_info(config.model).batch_statistics),
        variances_(groups_.size()),
        covariances_(groups_.size()) {}

  void draw(const Loader& loader, std::int64_t sample) {
    StepContext context;
    context.seed = options_.seed;
    context.step = sample;
    context.batch = config_.train.batch;
    context.lr = config_.train.lr;
    context.momentum = config_.train.momentum;
    const auto indices = drawn_examples(loader.size(), context.batch, options_.seed, sample);
    pass_.begin({injection_.needs(context), options_.seed, static_cast<std::uint32_t>(sample)});
    for (std::int64_t first = 0; first < context.batch; first += config_.train.micro_batch) {
      const auto slice = indices.narrow(0, first, std::min(config_.train.micro_batch, context.batch - first));
      pass_.add(loader.images(slice, sample), loader.labels(slice));
    }
    const GradientStatistics statistics = pass_.finish();
    const auto noise = injection_.draw(statistics, context).tensor();
    add(noise.defined() ? statistics.gradient + noise : statistics.gradient.clone());
    add_estimate(statistics);
  }

  std::vector<LayerVariance> result() const {
    std::vector<LayerVariance> layers;
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      LayerVariance layer;
      layer.layer = groups_[i].name;
      layer.parameters = groups_[i].parameters;
      layer.variance = mean_of(variances_[i]);
      layer.covariance = covariances_[i].empty() ? Measured{kNone, kNone} : mean_of(covariances_[i]);
      layers.push_back(layer);
    }
    return layers;
  }

 private:
  /// Directions less the first one of their block, so that the squared values are as small as their spread.
  void add(const at::Tensor& direction) {
    if (!origin_.defined()) {
      origin_ = direction;
      sum_ = torch::zeros_like(direction);
      squares_ = torch::zeros_like(direction);
      count_ = 1;
      return;
    }
    const auto offset = direction - origin_;
    sum_.add_(offset);
    squares_.addcmul_(offset, offset);
    if (++count_ == kBlock) end_block();
  }

  void end_block() {
    const auto variance = squares_.addcmul_(sum_, sum_, -1.0 / kBlock).div_(kBlock - 1);
    for (std::size_t i = 0; i < groups_.size(); ++i)
      variances_[i].push_back(group_mean(parameters_, groups_[i], variance));
    origin_ = at::Tensor();
  }

  void add_estimate(const GradientStatistics& statistics) {
    at::Tensor diagonal;
    if (statistics.draw.defined()) diagonal = statistics.draw.pow(2);
    if (statistics.diagonal.defined() && statistics.factors.empty()) diagonal = statistics.diagonal;
    if (!diagonal.defined()) return;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      covariances_[i].push_back(group_mean(parameters_, groups_[i], diagonal));
  }

  Config config_;
  const VarianceOptions& options_;
  FlatParameters& parameters_;
  std::vector<LayerGroup> groups_;
  GradientPass pass_;
  Injection injection_;
  at::Tensor origin_, sum_, squares_;
  std::int64_t count_ = 0;
  std::vector<std::vector<double>> variances_, covariances_;  // by group: of blocks, of samples
};

void compare_with_sb(VarianceStudy& study) {
  const auto sb = study.regimes.front().layers;
  for (auto& regime : study.regimes) {
    for (std::size_t i = 0; i < sb.size(); ++i) {
      auto& layer = regime.layers[i];
      layer.over_sb = ratio(layer.variance, sb[i].variance);
      layer.over_actual = ratio(layer.covariance, sb[i].variance);
      layer.over_actual.value /= static_cast<double>(study.options.small_batch);
      layer.over_actual.error /= static_cast<double>(study.options.small_batch);
    }
  }
}

}  // namespace

std::vector<std::string> default_variance_regimes(const std::string& model) {
  if (!model_info(model).batch_statistics) return {"sb", "lb", "lb-diag", "lb-full"};
  return {"sb", "lb", "lb-diag:ghost", "lb-diag:signs", "lb-full", "lb-diag:exact", "lb-diag:spatial"};
}

VarianceStudy study_variance(const Config& run, Model& model, const Loader& loader, const VarianceOptions& options,
                             const std::function<void(std::int64_t, std::int64_t)>& done) {
  check(options);
  VarianceStudy study;
  study.options = options;
  study.model = run.model;
  study.data = run.data.name;
  auto& names = study.options.regimes;
  if (names.empty()) names = default_variance_regimes(run.model);
  if (names.front() != "sb") names.insert(names.begin(), "sb");
  std::vector<Config> configs;  // before any work, so that a wrong name is found at once
  for (const auto& name : names) configs.push_back(regime_config(run, name, options));
  const KeepState keep(model);
  model.train();
  set_ghost_batch(model, options.small_batch);
  FlatParameters parameters(model);
  const std::int64_t all = static_cast<std::int64_t>(names.size()) * options.samples * options.large_batch;
  std::int64_t number = 0, examples = 0;
  for (std::size_t r = 0; r < names.size(); ++r) {
    Sampler sampler(configs[r], study.options, model, parameters);
    // The same number of examples for every regime.
    const std::int64_t samples = options.samples * options.large_batch / configs[r].train.batch;
    for (std::int64_t i = 0; i < samples; ++i) {
      sampler.draw(loader, number++);
      done(examples += configs[r].train.batch, all);
    }
    study.regimes.push_back({names[r], configs[r].train.batch, sampler.result()});
  }
  set_ghost_batch(model, run.train.ghost_batch);
  compare_with_sb(study);
  return study;
}

}  // namespace covnoise
