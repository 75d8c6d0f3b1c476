#include "covnoise/train/trainer.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/data/internal/digest.h"
#include "covnoise/nn/batch_norm.h"
#include "covnoise/train/internal/software.h"
#include "covnoise/train/internal/stored_run.h"
#include "covnoise/train/schedule.h"
#include "train/config/noise_groups.h"
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
void refuse_what_would_not_be_done(const Config& config, const NoiseStructure& structure) {
  const auto& precision = config.train.precision;
  const bool gpu = training_device(config).is_cuda();  // an unavailable device is an Error of its own
  require(gpu || (precision != "bf16" && precision != "tf32"),
          fmt::format("train.precision = \"{}\" needs a GPU; use --device cuda, or --precision fp32 on the CPU",
                      precision));
  require(!config.train.init.empty() || (!config.train.init_partial && config.train.init_sha256.empty()),
          "train.init_partial and train.init_sha256 need train.init, the file of the initial weights");
  if (structure.is_zero() || !structure.scaled_by_batch()) return;
  const auto& noise = config.noise;
  const std::int64_t largest = largest_batch(config);
  require(largest > noise.small_batch,
          fmt::format("noise.structure = \"{}\" adds no noise, because the batch size, {}, is not larger than "
                      "noise.small_batch = {}; raise train.batch or lower noise.small_batch",
                      noise.structure, largest, noise.small_batch));
  require(
      noise.stop_after == 0 || has_noisy_period(config),
      fmt::format("noise.structure = \"{}\" adds no noise, because noise.stop_after = {:g} ends it before the first "
                  "batch larger than noise.small_batch = {}; raise noise.stop_after, or begin the large batch earlier",
                  noise.structure, noise.stop_after, noise.small_batch));
}

/// A line for each change of the batch size that comes after the last epoch.
void say_changes_that_never_come(const Config& config, const std::function<void(const std::string&)>& say) {
  const auto& train = config.train;
  for (const auto& change : train.batch_schedule) {
    const std::int64_t epoch = epoch_of_setting(change.epoch, train.epochs);
    if (epoch < train.epochs) continue;
    say(fmt::format(
        "warning: the batch of {} examples in train.batch_schedule never comes: it begins after {} epoch{}, "
        "and train.epochs = {}",
        change.batch, epoch, epoch == 1 ? "" : "s", train.epochs));
  }
}

/// A training that diverges does so on all ranks: they end together.
Outcome run_to_the_end(TrainingRun& run, const RunFiles& files, Communicator* ranks) {
  try {
    const Outcome outcome = run.run(files);
    run.leave_evaluated_network();
    return outcome;
  } catch (const Diverged&) {
    if (ranks) ranks->leave();
    throw;
  } catch (const StoppedNow&) {
    return Outcome::kStoppedNow;
  }
}

/// What can be refused before data are loaded.
void check_before_loading(const TrainOptions& options, const NoiseStructure& structure) {
  check_config(options.config);
  refuse_what_would_not_be_done(options.config, structure);
  const RunFolder folder{options.out};
  auto* ranks = options.communicator;
  const bool writes = !ranks || ranks->rank() == 0;
  if (ranks) refuse_other_training(*ranks, options.config);
  if (writes && std::filesystem::exists(folder.config()))
    refuse_other_configuration(folder, options.config, !structure.is_zero());
}

/// Buffers of other people's layers would be each rank's own.
void refuse_foreign_buffers(torch::nn::Module& module) {
  std::set<std::string> known;
  module.apply([&](const std::string& name, torch::nn::Module& part) {
    if (!part.as<GhostBatchNorm2dImpl>()) return;
    const std::string prefix = name.empty() ? "" : name + ".";
    known.insert({prefix + "running_mean", prefix + "running_var"});
  });
  for (const auto& item : module.named_buffers()) {
    require(known.count(item.key()) > 0,
            fmt::format("buffer '{}' would be each rank's own: on several ranks use covnoise's batch normalisation",
                        item.key()));
  }
}

/// `digest` is that of the run's data, which it records; `noisy`, whether its structure is not zero.
Outcome train_in_folder(const TrainOptions& options, const std::string& digest, bool noisy,
                        const std::function<RunTask(at::Device)>& make, std::shared_ptr<torch::nn::Module>& trained) {
  const RunFolder folder{options.out};
  auto* ranks = options.communicator;
  const bool writes = !ranks || ranks->rank() == 0;
  TrainingRun run(options, make);
  trained = run.task().module;

  std::optional<RunLock> lock;
  if (writes) {
    lock.emplace(folder);
    // Another process may have started a run here since the first look.
    if (std::filesystem::exists(folder.config())) refuse_other_configuration(folder, options.config, noisy);
  }
  CheckpointStore store(folder.checkpoints());
  const auto latest = writes ? store.load_latest(options.say) : std::nullopt;
  if (latest) refuse_other_provenance(*latest, folder, digest, options.say);
  if (writes && !latest) refuse_lost_checkpoints(folder);
  const auto checkpoint = ranks    ? share_checkpoint(*ranks, latest)
                          : latest ? std::optional(checkpoint_of_rank(*latest, 0, 1))
                                   : std::nullopt;
  if (checkpoint) {
    run.restore(*checkpoint);
    if (run.finished()) {
      run.leave_evaluated_network();
      return Outcome::kFinishedBefore;
    }
    options.say(fmt::format("resuming {} from step {}", folder.root.string(), checkpoint->common.step));
  } else if (!options.config.train.init.empty()) {
    options.say(run.load_initial_weights());
  }
  options.say(run.summary());
  say_changes_that_never_come(options.config, options.say);
  if (!writes) return run_to_the_end(run, {}, ranks);
  if (latest) store.clean(*latest);
  record_configuration(folder, options.config);
  record_software(folder, options.config.run.device, latest ? std::optional(latest->step) : std::nullopt);
  MetricsWriter metrics(folder.root, latest ? std::optional(latest->step) : std::nullopt);
  return run_to_the_end(run, {&store, &metrics, {settings_of(options.config), digest}}, ranks);
}

}  // namespace

Outcome train(const TrainOptions& options) {
  const auto structure = make_structure(options.config.noise, model_info(options.config.model).batch_statistics);
  check_before_loading(options, *structure);
  const DataSource source = options.data(data_request(options.config));
  for (const auto& note : source.notes) options.say(note);
  const std::string digest = data_digest(source);
  if (options.communicator) refuse_other_data(*options.communicator, source.name, digest);
  std::shared_ptr<torch::nn::Module> trained;
  return train_in_folder(
      options, digest, !structure->is_zero(),
      [&](at::Device device) { return make_run_task(options.config, source, device); }, trained);
}

Trainer::Trainer(TrainOptions options, Task task) : options_(std::move(options)), task_(std::move(task)) {
  require(task_.module && task_.loss, "a Task needs a module and a loss");
  const auto module = task_.module();
  if (options_.communicator) refuse_foreign_buffers(*module);
  resolve_own_defaults(options_.config, task_, *module);
}

Outcome Trainer::run() {
  const auto structure = structure_of(task_, options_.config.noise);
  check_before_loading(options_, *structure);
  auto examples = task_.train;
  examples.insert(examples.end(), task_.test.begin(), task_.test.end());
  const std::string digest = data_digest(examples);
  if (options_.communicator) refuse_other_data(*options_.communicator, options_.config.data.name, digest);
  return train_in_folder(
      options_, digest, !structure->is_zero(),
      [&](at::Device device) { return make_run_task(options_.config, task_, device); }, module_);
}

torch::nn::Module& Trainer::module() const {
  require(module_ != nullptr, "there is no network before Trainer::run");
  return *module_;
}

Evaluation Trainer::evaluate() const {
  const auto loss = [this](const GradientPass::Examples& examples) { return task_.loss(module(), examples); };
  const auto source = test_source(options_.config, task_, training_device(options_.config));
  return evaluate_task(module(), loss, *source, nullptr);
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
  TrainedModel result;
  result.config = StoredRun(run).config();
  result.config.run.device = device;
  const CheckpointStore store(folder.checkpoints());
  const auto loaded = which == Which::kBest ? store.load_best(warn, damaged) : store.load_latest(warn, damaged);
  if (!loaded) throw Error(fmt::format("{} has no checkpoint", run.string()));
  refuse_other_config(*loaded, folder, warn);
  result.source = data(data_request(result.config));
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
