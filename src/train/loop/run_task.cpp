#include "train/loop/run_task.h"

#include "covnoise/core/error.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/split.h"
#include "train/config/noise_groups.h"
#include "train/loop/initial_model.h"
#include "train/ranks/shard.h"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace covnoise {
namespace {

GradientPass::Examples rows_of(const GradientPass::Examples& all, std::int64_t first, std::int64_t end) {
  GradientPass::Examples part;
  for (const auto& tensor : all) part.push_back(tensor.defined() ? tensor.slice(0, first, end) : tensor);
  return part;
}

at::ScalarType parameter_type(const Config& config) {
  return config.train.precision == "fp64" ? torch::kFloat64 : torch::kFloat32;
}

/// In the parameters' type.
std::unique_ptr<TensorSource> tensor_source(const Config& config, GradientPass::Examples examples, at::Device device) {
  for (auto& tensor : examples) {
    if (tensor.defined() && tensor.is_floating_point()) tensor = tensor.to(parameter_type(config));
  }
  return std::make_unique<TensorSource>(std::move(examples), config.seed, device);
}

/// The sets of a task, limited and held out as the configuration says.
void add_sources(RunTask& run, const Config& config, const Task& task, at::Device device) {
  const auto source = [&](GradientPass::Examples examples) {
    return tensor_source(config, std::move(examples), device);
  };
  const auto all = source(task.train);
  const std::int64_t limit = config.data.train_limit > 0 ? config.data.train_limit : all->size();
  const std::int64_t count = limit - config.data.holdout;
  require(limit <= all->size() && count >= 1,
          fmt::format("data.train_limit = {} and data.holdout = {} do not fit {} training examples",
                      config.data.train_limit, config.data.holdout, all->size()));
  require(config.data.augment != "on",
          "data.augment = \"on\" is for images of a data set, not for tensors of your own");
  run.train = source(rows_of(task.train, 0, count));
  if (config.data.holdout > 0) run.validation = source(rows_of(task.train, count, limit));
  run.test = test_source(config, task, device);
}

/// Examples that stay together where the layers of a network normalise: the least common multiple of their ghost
/// batches, or 0, the whole batch, if that is what one of them takes.
std::int64_t ghost_batch_of(torch::nn::Module& module) {
  std::int64_t together = 1;
  for (const auto& [name, layer] : normalisation_layers(module)) together = std::lcm(together, layer->ghost_batch());
  return together;
}

/// Each batch is whole ghost batches of every layer; one that is smaller is a ghost batch.
void check_ghost_batches(const Config& config, torch::nn::Module& module) {
  const auto check = [&](const std::string& key, std::int64_t batch) {
    for (const auto& [name, layer] : normalisation_layers(module)) {
      const std::int64_t ghost = layer->ghost_batch();
      require(ghost == 0 || batch < ghost || batch % ghost == 0,
              fmt::format("{} = {} is not a whole number of ghost batches of layer '{}', which normalises {} examples "
                          "together; change one of them",
                          key, batch, name, ghost));
    }
  };
  check("train.batch", config.train.batch);
  for (const auto& change : config.train.batch_schedule) check("train.batch_schedule's batch", change.batch);
}

}  // namespace

RunTask make_run_task(const Config& config, const DataSource& source, at::Device device) {
  Split split = make_split(source, config);
  const auto model = initial_model(config, source, device);
  RunTask run;
  run.module = model;
  // Evaluations report plain losses.
  run.loss = [model, smoothing = config.train.label_smoothing](const GradientPass::Examples& examples) {
    return cross_entropy(model->forward(examples[0]), examples[1], model->is_training() ? smoothing : 0);
  };
  run.structure = make_structure(config.noise, model_info(config.model).batch_statistics);
  run.train = std::make_unique<LoaderSource>(std::move(split.train));
  run.test = std::make_unique<LoaderSource>(std::move(split.test));
  if (split.validation) run.validation = std::make_unique<LoaderSource>(std::move(*split.validation));
  run.guessing_loss = std::log(static_cast<double>(source.classes.size()));
  run.unit = "image";
  return run;
}

RunTask make_run_task(const Config& config, const Task& task, at::Device device) {
  torch::manual_seed(config.seed);
  RunTask run;
  run.module = task.module();
  run.module->to(device, parameter_type(config));
  run.module->train();
  run.loss = [module = run.module, loss = task.loss](const GradientPass::Examples& examples) {
    return loss(*module, examples);
  };
  run.structure = structure_of(task, config.noise);
  add_sources(run, config, task, device);
  run.guessing_loss = std::numeric_limits<double>::infinity();
  run.unit = "example";
  run.answers = losses_of_first(run).correct.defined();  // refuses a loss that does not fit
  return run;
}

Losses losses_of_first(const RunTask& run) {
  const torch::NoGradGuard no_grad;
  run.module->eval();
  auto losses = run.loss(run.train->plain(torch::arange(std::min<std::int64_t>(2, run.train->size()))));
  run.module->train();
  return losses;
}

std::unique_ptr<ExampleSource> test_source(const Config& config, const Task& task, at::Device device) {
  const std::int64_t limit = config.data.test_limit;
  return tensor_source(config, limit > 0 ? rows_of(task.test, 0, limit) : task.test, device);
}

std::unique_ptr<NoiseStructure> structure_of(const Task& task, const NoiseOptions& noise) {
  return task.structure ? task.structure() : make_structure(noise);
}

void resolve_own_defaults(Config& config, const Task& task, torch::nn::Module& module) {
  auto& train = config.train;
  require(train.lr > 0, "train.lr must be set: there is no default learning rate for a network of your own");
  require(train.precision != "bf16",
          "train.precision = \"bf16\" is for the models of the table; use fp32, tf32 or fp64");
  require(train.label_smoothing == 0,
          "train.label_smoothing is for the models of the table; smooth the labels in the loss of your own");
  for (const auto& change : train.batch_schedule)
    require(change.lr > 0, "train.batch_schedule must name learning rates: there are no defaults for your own network");
  config.noise = with_estimator_for(module, config.noise);
  const auto structure = structure_of(task, config.noise);
  require(
      !config.noise.scale.match || structure->is_zero() || config.noise.match_lr > 0,
      "noise.match_lr must be set for noise.scale = \"match\": there is no default learning rate of the small batch "
      "for a network of your own");
  if (config.noise.group == 0) config.noise.group = config.noise.small_batch;
  train.ghost_batch = std::min(ghost_batch_of(module), largest_batch(config));
  check_ghost_batches(config, module);
  resolve_sharpness(config);
  const bool micro = config.noise.estimator == "micro" || structure->needs().squares == Squares::kMicro;
  if (train.micro_batch == 0) {
    const std::int64_t unit = std::max<std::int64_t>(1, train.ghost_batch), group = config.noise.group;
    train.micro_batch = micro ? (group + unit - 1) / unit * unit : largest_batch(config);
  }
  check_batches(config, normalises_by_batch(module));
  check_config(config);
  check_noise_groups(config, *structure);
}

Evaluation evaluate_task(torch::nn::Module& module, const GradientPass::Loss& loss, const ExampleSource& source,
                         Communicator* ranks) {
  const std::int64_t slice = source.device().is_cuda() ? 5000 : 500;
  const std::int64_t slices = (source.size() + slice - 1) / slice, stride = ranks ? ranks->size() : 1;
  const auto examples_of = [&](std::int64_t i) {
    return torch::arange(i * slice, std::min(source.size(), (i + 1) * slice));
  };
  const torch::NoGradGuard no_grad;
  const bool training = module.is_training();
  module.eval();
  // Sums of losses and of correct answers per slice, added up in order, whichever rank computed them.
  auto sums = torch::zeros({slices, 2}, torch::TensorOptions(source.device()).dtype(torch::kFloat64));
  for (std::int64_t i = ranks ? ranks->rank() : 0; i < slices; i += stride) {
    const auto examples = source.plain(examples_of(i));
    if (i + stride < slices) source.prefetch(examples_of(i + stride));
    const auto losses = loss(examples);
    sums[i][0].copy_(losses.values.sum(at::kDouble));
    if (losses.correct.defined()) sums[i][1].copy_(losses.correct.sum());
  }
  module.train(training);
  if (ranks) ranks->all_reduce(sums);
  sums = sums.cpu();
  Evaluation result;
  result.examples = source.size();
  for (std::int64_t i = 0; i < slices; ++i) {
    result.loss += sums[i][0].item<double>();
    result.accuracy += sums[i][1].item<double>();
  }
  result.loss /= static_cast<double>(result.examples);
  result.accuracy /= static_cast<double>(result.examples);
  return result;
}

}  // namespace covnoise
