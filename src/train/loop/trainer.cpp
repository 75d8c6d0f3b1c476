#include "covnoise/train/trainer.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/data/internal/digest.h"
#include "covnoise/train/internal/software.h"
#include "train/files/provenance.h"
#include "train/files/snapshot.h"
#include "train/loop/initial_model.h"
#include "train/loop/training_run.h"
#include "train/ranks/rank_consistency.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <set>

namespace covnoise {
namespace {

/// Refuses settings that would be recorded but not carried out.
void refuse_what_would_not_be_done(const Config& config) {
  const auto& precision = config.train.precision;
  const bool gpu = training_device(config).is_cuda();  // an unavailable device is an Error of its own
  require(gpu || (precision != "bf16" && precision != "tf32"),
          fmt::format("train.precision = \"{}\" needs a GPU; use --device cuda, or --precision fp32 on the CPU",
                      precision));
  const double warmup = config.train.warmup;
  require(warmup < 1 || warmup < static_cast<double>(config.train.epochs),
          fmt::format("train.warmup = {:g} epochs is not shorter than the training, train.epochs = {}; lower it",
                      warmup, config.train.epochs));
  const std::int64_t largest = largest_batch(config);
  const auto structure = make_structure(config.noise, model_info(config.model).batch_statistics);
  require(structure->is_zero() || !structure->scaled_by_batch() || largest > config.noise.small_batch,
          fmt::format("noise.structure = \"{}\" adds no noise, because the batch size, {}, is not larger than "
                      "noise.small_batch = {}; raise train.batch or lower noise.small_batch",
                      config.noise.structure, largest, config.noise.small_batch));
}

/// A training that diverges does so on all ranks: they end together.
Outcome run_to_the_end(TrainingRun& run, const RunFiles& files, Communicator* ranks) {
  try {
    return run.run(files);
  } catch (const Diverged&) {
    if (ranks) ranks->leave();
    throw;
  } catch (const StoppedNow&) {
    return Outcome::kStoppedNow;
  }
}

}  // namespace

Outcome train(const TrainOptions& options) {
  refuse_what_would_not_be_done(options.config);
  const RunFolder folder{options.out};
  auto* ranks = options.communicator;
  const bool writes = !ranks || ranks->rank() == 0;
  if (ranks) refuse_other_training(*ranks, options.config);
  if (writes && std::filesystem::exists(folder.config())) refuse_other_configuration(folder, options.config);
  const DataSource source = options.data(options.config.data.name);
  if (ranks) refuse_other_data(*ranks, source);
  TrainingRun run(options, source);

  std::optional<RunLock> lock;
  if (writes) {
    lock.emplace(folder);
    // Another process may have started a run here since the first look.
    if (std::filesystem::exists(folder.config())) refuse_other_configuration(folder, options.config);
  }
  CheckpointStore store(folder.checkpoints());
  const auto latest = writes ? store.load_latest(options.say) : std::nullopt;
  const std::string data = writes ? data_digest(source) : "";
  if (latest) refuse_other_provenance(*latest, folder, data, options.say);
  if (writes && !latest) refuse_lost_checkpoints(folder);
  const auto checkpoint = ranks    ? share_checkpoint(*ranks, latest)
                          : latest ? std::optional(checkpoint_of_rank(*latest, 0, 1))
                                   : std::nullopt;
  if (checkpoint) {
    run.restore(*checkpoint);
    if (run.finished()) return Outcome::kFinishedBefore;
    options.say(fmt::format("resuming {} from step {}", folder.root.string(), checkpoint->common.step));
  }
  options.say(run.summary());
  if (!writes) return run_to_the_end(run, {}, ranks);
  if (latest) store.clean(*latest);
  record_configuration(folder, options.config);
  record_software(folder, options.config.run.device, latest ? std::optional(latest->step) : std::nullopt);
  MetricsWriter metrics(folder.root, latest ? std::optional(latest->step) : std::nullopt);
  return run_to_the_end(run, {&store, &metrics, {settings_of(options.config), data}}, ranks);
}

std::vector<NamedTensor> model_tensors(const torch::nn::Module& model) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value().detach());
  for (const auto& item : model.named_buffers()) tensors.emplace_back(item.key(), item.value().detach());
  return tensors;
}

void load_model_tensors(torch::nn::Module& model, const std::vector<NamedTensor>& tensors) {
  const torch::NoGradGuard no_grad;
  const auto slots = model_tensors(model);
  if (slots.size() != tensors.size()) {
    throw Error(fmt::format("the checkpoint has {} tensors, the network {}", tensors.size(), slots.size()));
  }
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto& [name, slot] = slots[i];
    const auto& [stored_name, stored] = tensors[i];
    if (name != stored_name || slot.sizes() != stored.sizes()) {
      throw Error(fmt::format("the checkpoint's tensor '{}' does not match the network's '{}'", stored_name, name));
    }
    slot.copy_(stored);
  }
}

TrainedModel load_trained(const std::filesystem::path& run, Which which, const DataSetByName& data,
                          const std::function<void(const std::string&)>& warn, const std::string& device,
                          IfDamaged damaged) {
  const RunFolder folder{run};
  if (!std::filesystem::exists(folder.config())) {
    throw Error(fmt::format("{} is not a run: it has no config.toml", run.string()));
  }
  TrainedModel result;
  result.config = read_config(folder.config());
  result.config.run.device = device;
  const CheckpointStore store(folder.checkpoints());
  const auto loaded = which == Which::kBest ? store.load_best(warn, damaged) : store.load_latest(warn, damaged);
  if (!loaded) throw Error(fmt::format("{} has no checkpoint", run.string()));
  refuse_other_config(*loaded, folder);
  result.source = data(result.config.data.name);
  if (is_of_other_data(*loaded, data_digest(result.source)))
    warn(fmt::format("{} was trained on other images or labels than the data set has here", run.string()));
  result.model = model_for(result.config, result.source);
  load_model_tensors(*result.model, loaded->checkpoint.model);
  result.model->to(training_device(result.config));
  result.model->eval();
  result.step = loaded->step;
  return result;
}

TrainedModel load_for_analysis(const std::filesystem::path& run, const DataSetByName& data,
                               const std::function<void(const std::string&)>& warn, const std::string& device,
                               IfDamaged damaged) {
  auto trained = load_trained(run, Which::kLast, data, warn, device, damaged);
  if (trained.config.train.precision != "fp64") trained.config.train.precision = "fp32";
  return trained;
}

std::vector<std::int64_t> kept_steps(const std::filesystem::path& run) {
  const RunFolder folder{run};
  std::set<std::int64_t> steps;
  for (const auto& entry : CheckpointStore(folder.checkpoints()).list()) steps.insert(entry.step);
  if (std::filesystem::is_directory(folder.snapshots())) {
    for (const auto& entry : std::filesystem::directory_iterator(folder.snapshots())) {
      long long step = 0;
      if (std::sscanf(entry.path().filename().c_str(), "step-%lld.safetensors", &step) != 1) continue;
      if (entry.path() == folder.snapshot(step)) steps.insert(step);
    }
  }
  return {steps.begin(), steps.end()};
}

void load_step(TrainedModel& trained, const std::filesystem::path& run, std::int64_t step,
               const std::function<void(const std::string&)>& warn) {
  const RunFolder folder{run};
  trained.step = step;
  if (std::filesystem::exists(folder.snapshot(step))) {
    load_model_tensors(*trained.model, read_snapshot(folder.snapshot(step), warn));
    return;
  }
  for (const auto& entry : CheckpointStore(folder.checkpoints()).list()) {
    if (entry.step != step) continue;
    load_model_tensors(*trained.model, CheckpointStore::load(entry.path).checkpoint.model);
    return;
  }
  throw Error(fmt::format("{} has kept no network of step {}; available steps: {} (train.snapshot_every keeps more)",
                          run.string(), step, fmt::join(kept_steps(run), ", ")));
}

}  // namespace covnoise
