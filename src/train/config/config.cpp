#include "covnoise/train/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/toml_text.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/noise/injection.h"
#include "covnoise/noise/penalty.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/regimes.h"
#include "covnoise/train/schedule.h"
#include "train/config/config_fields.h"
#include "train/config/config_toml.h"
#include "train/config/noise_groups.h"

namespace covnoise {
namespace {

/// Whether the network normalises by ghost batches. One that is not in the table may.
bool may_normalise(const std::string& model) {
  try {
    return model_info(model).batch_statistics;
  } catch (const Error&) {
    return true;
  }
}

/// Sharpness is that of micro-batches of one size, of whole ghost batches; a smaller batch is one of them.
void check_sharpness(const TrainConfig& train, std::int64_t batch, std::int64_t ghost) {
  if (!train.sharp_micro_batches()) return;
  const std::int64_t size = std::min(train.sharpness_batch, batch);
  require(batch % size == 0,
          fmt::format("train.sharpness needs whole micro-batches: a batch of {} examples is not a multiple of "
                      "train.sharpness_batch = {}",
                      batch, train.sharpness_batch));
  require(size % ghost == 0,
          fmt::format("train.sharpness_batch = {} is not a whole number of ghost batches of {} examples "
                      "(train.ghost_batch = {})",
                      train.sharpness_batch, ghost, train.ghost_batch));
  require(train.micro_batch == 0 || train.micro_batch == train.sharpness_batch || !train.always_sharp(),
          fmt::format("train.micro_batch = {} is not train.sharpness_batch = {}: with train.sharpness in every step "
                      "they are the same; leave train.micro_batch out",
                      train.micro_batch, train.sharpness_batch));
}

/// Where the network normalises, a step of `batch` examples is a whole number of ghost batches, and so is every
/// micro-batch of it. A batch smaller than a ghost batch is one.
void check_batch(const TrainConfig& train, std::int64_t batch, const std::string& key, bool normalises) {
  const std::int64_t largest = train.ghost_batch > 0 ? std::min(train.ghost_batch, batch) : batch;
  const std::int64_t ghost = normalises ? largest : 1;
  if (batch % ghost != 0) {
    throw Error(
        fmt::format("{} = {} is not a whole number of ghost batches (train.ghost_batch = {}); choose a multiple of "
                    "it, or set train.ghost_batch to a divisor of the batch",
                    key, batch, train.ghost_batch));
  }
  if (train.micro_batch > 0 && train.micro_batch < batch && train.micro_batch % ghost != 0) {
    throw Error(
        fmt::format("train.micro_batch = {} is not a whole number of ghost batches of {} examples ({} = {}, "
                    "train.ghost_batch = {})",
                    train.micro_batch, ghost, key, batch, train.ghost_batch));
  }
  check_sharpness(train, batch, ghost);
}

void check_warmup(const char* key, double warmup, std::int64_t epochs) {
  require(warmup < 1 || warmup < static_cast<double>(epochs),
          fmt::format("{} = {:g} epochs is not shorter than the training, train.epochs = {}; lower it", key, warmup,
                      epochs));
}

void check_batch_schedule(const TrainConfig& train) {
  std::int64_t last = 0;
  for (const auto& change : train.batch_schedule) {
    const std::int64_t epoch = epoch_of_setting(change.epoch, train.epochs);
    if (epoch < last) throw Error(fmt::format("train.batch_schedule goes back in time at epoch {}", change.epoch));
    last = epoch;
  }
}

/// Steps below this one move most weights by less than their rounding to 7 or 10 bits (docs/noise.md has the errors).
constexpr double kLeastRoundedStep = 0.1;

void check_rounded_penalty(const Config& config) {
  const auto& precision = config.train.precision;
  const bool rounded = precision == "bf16" || precision == "tf32";
  require(config.noise.penalty == 0 || !rounded || config.noise.penalty_step >= kLeastRoundedStep,
          fmt::format("noise.penalty_step = {:g} is lost in the rounding of {}: use at least {:g}, or "
                      "train.precision = \"fp32\"",
                      config.noise.penalty_step, precision, kLeastRoundedStep));
}

/// Fails where an Injection with these options cannot be made.
void check_noise(const Config& config) {
  Injection{config.noise};
  const bool sgd = config.train.optimizer == "sgd";
  require(sgd || !config.train.nesterov, "train.nesterov is for train.optimizer = \"sgd\"");
  require(sgd || !config.noise.scale.match,
          "noise.scale = \"match\" compares temperatures of sgd; with another train.optimizer give a number");
  check_rounded_penalty(config);
  require(config.train.sharpness == 0 || config.noise.penalty == 0,
          fmt::format("noise.penalty = {:g} compares gradients at the same weights, and train.sharpness = {:g} moves "
                      "them; set one of them to 0",
                      config.noise.penalty, config.train.sharpness));
  require(config.train.sharpness == 0 || config.train.sharpness_along == "gradient" || config.train.momentum > 0,
          "train.sharpness_along = \"momentum\" needs a momentum: train.momentum = 0");
  require(config.noise.penalty == 0 || largest_batch(config) > config.noise.small_batch,
          fmt::format("noise.penalty = {:g} has no effect: no batch is larger than noise.small_batch = {}",
                      config.noise.penalty, config.noise.small_batch));
  check_penalty(config.noise, config.train.batch);
  for (const auto& change : config.train.batch_schedule) check_penalty(config.noise, change.batch);
  check_noise_groups(config, *make_structure(config.noise));  // of `auto`: exact, which compares nothing
}

std::string checksum_line(std::string_view text) { return fmt::format("# sha256 {}\n", sha256_hex(text)); }

/// Refuses a text whose last line is a comment, but not the checksum of the lines before it.
void check_last_line(std::string_view text, const std::string& name) {
  const std::size_t start = text.size() < 2 ? 0 : text.rfind('\n', text.size() - 2) + 1;
  if (text.substr(start, 1) != "#") return;
  require(text.substr(start) == checksum_line(text.substr(0, start)),
          fmt::format("{} does not match its checksum, the last line: it is damaged or was edited; restore it", name));
}

/// While it lives, the keys of a step schedule have no value; in the end those that nobody set get the values from
/// before. A schedule that only the regime names gives way to the steps of a recipe that sets when or how far to decay.
class StepScheduleKeys {
 public:
  explicit StepScheduleKeys(TrainConfig& train) : train_(train), before_(train) {
    train_.schedule.clear();
    train_.milestones = {kUnset};
    train_.decay = kUnset;
  }
  void finish() {
    const bool timed = train_.milestones != std::vector<double>{kUnset}, scaled = train_.decay != kUnset;
    if (train_.schedule.empty()) train_.schedule = timed || scaled ? "step" : before_.schedule;
    if (!timed) train_.milestones = before_.milestones;
    if (!scaled) train_.decay = before_.decay;
  }

 private:
  static constexpr double kUnset = -1;  // no recipe may say that
  TrainConfig& train_;
  TrainConfig before_;
};

/// While it lives, sharpness and the penalty have no value. In the end their keys are refused where nobody gave one:
/// they would have no effect. A value of 0 switches them off, whatever their keys are.
class FeatureKeys {
 public:
  explicit FeatureKeys(Config& config)
      : config_(config),
        features_{{"train.sharpness", &config.train.sharpness, config.train.sharpness},
                  {"noise.penalty", &config.noise.penalty, config.noise.penalty}} {
    for (auto& feature : features_) *feature.strength = kUnset;
  }
  void finish() {
    for (auto& feature : features_) {
      if (*feature.strength != kUnset) continue;
      *feature.strength = feature.before;
      if (feature.before == 0) refuse_keys_of(feature.key);
    }
  }

 private:
  struct Feature {
    std::string key;
    double* strength;
    double before;
  };

  void refuse_keys_of(const std::string& feature) const {
    const Config defaults;
    for (const auto& field : config_fields()) {
      const std::string value = value_text(field, config_);
      require(field.key.rfind(feature + "_", 0) != 0 || value == value_text(field, defaults),
              fmt::format("{0} = {1} has no effect without {2}; set {2} or leave {0} out", field.key, value, feature));
    }
  }

  static constexpr double kUnset = -1;  // no recipe may say that
  Config& config_;
  std::vector<Feature> features_;
};

/// Where a configuration comes from, as the start of an error; nothing where it has no file.
std::string origin(const std::string& name, const std::vector<std::string>& overrides) {
  if (name.empty()) return "";
  return overrides.empty() ? name + ": " : name + " with the settings given: ";
}

/// Calls `function`; its errors get `prefix`.
template <typename Function>
void with_prefix(const std::string& prefix, const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    throw Error(prefix + error.what(), error.exit_code());
  }
}

/// `name` is the recipe's file.
Config merged(const Recipe* recipe, const std::string& name, const std::vector<std::string>& overrides) {
  const std::string where = origin(name, overrides);
  Config config;
  if (recipe) config.regime = recipe->regime().value_or(config.regime);
  for (const auto& setting : overrides) {
    if (override_key(setting) == "regime") apply_override(config, setting);
  }
  const std::string regime = config.regime;

  with_prefix(where, [&] { Recipe(regime_fragment(regime), "regime " + regime).apply(config); });
  StepScheduleKeys steps(config.train);
  FeatureKeys features(config);
  if (recipe) {
    recipe->apply(config);
    config.regime = regime;
    recipe->apply_regime(config);
  }
  for (const auto& setting : overrides) apply_override(config, setting);
  steps.finish();
  with_prefix(where, [&] {
    features.finish();
    check_config(config);
  });
  return config;
}

}  // namespace

void check_batches(const Config& config, bool normalises) {
  check_batch(config.train, config.train.batch, "train.batch", normalises);
  for (const auto& change : config.train.batch_schedule)
    check_batch(config.train, change.batch, "train.batch_schedule's batch", normalises);
}

void check_config(const Config& config) {
  for (const auto& field : config_fields()) {
    const std::string problem = broken_limit(field, config);
    if (!problem.empty()) throw Error(fmt::format("{} = {}: {}", field.key, value_text(field, config), problem));
  }
  regime_fragment(config.regime);
  check_batches(config, may_normalise(config.model));
  check_batch_schedule(config.train);
  check_warmup("train.warmup", config.train.warmup, config.train.epochs);
  check_warmup("noise.match_warmup", config.noise.match_warmup, config.train.epochs);
  check_noise(config);
  require((config.data.resize == 0 && config.data.crop == 0) || config.data.name.rfind("folder:", 0) == 0,
          fmt::format("data.resize and data.crop are for data sets folder:PATH, not for {}", config.data.name));
  if (config.data.train_limit > 0 && config.data.holdout >= config.data.train_limit) {
    throw Error(fmt::format("data.holdout = {} leaves nothing of data.train_limit = {} to train on",
                            config.data.holdout, config.data.train_limit));
  }
}

Config load_config(const std::optional<std::filesystem::path>& recipe, const std::vector<std::string>& overrides) {
  return recipe ? load_recipe(read_file(*recipe, kLargestToml), recipe->string(), overrides)
                : merged(nullptr, "", overrides);
}

Config load_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides) {
  const Recipe recipe(text, name);
  return merged(&recipe, name, overrides);
}

Config parse_config(std::string_view toml, const std::string& name) {
  const Recipe recipe(toml, name);
  recipe.refuse_regime_tables();
  Config config;
  recipe.apply(config);
  if (config.noise.group == 0) config.noise.group = config.noise.small_batch;  // written before the key existed
  with_prefix(origin(name, {}), [&] { check_config(config); });
  return config;
}

Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  const std::string text = read_file(path, kLargestToml);
  check_last_line(text, path.string());
  Config config = parse_config(text, path.string());
  for (const auto& setting : overrides) apply_override(config, setting);
  with_prefix(origin(path.string(), overrides), [&] { check_config(config); });
  return config;
}

std::string to_toml(const Config& config) {
  std::string text, section;
  for (const auto& field : config_fields()) {
    if (field.section() != section) {
      section = field.section();
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{} = {}\n", field.name(), value_text(field, config));
  }
  return text;
}

std::string to_checked_toml(const Config& config) {
  const std::string text = to_toml(config);
  return text + checksum_line(text);
}

std::vector<std::string> difference(const Config& there, const Config& here) {
  std::vector<std::string> lines;
  for (const auto& field : config_fields()) {
    const std::string a = value_text(field, there), b = value_text(field, here);
    if (a != b && field.decides_training()) lines.push_back(fmt::format("{}: {} there, {} here", field.key, a, b));
  }
  return lines;
}

std::vector<std::pair<std::string, std::string>> config_values(const Config& config) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& field : config_fields()) values.emplace_back(field.key, value_text(field, config));
  return values;
}

std::vector<std::string> config_keys() {
  std::vector<std::string> keys;
  for (const auto& field : config_fields()) keys.push_back(field.key);
  return keys;
}

std::string describe_keys() {
  const Config defaults;
  std::string text;
  for (const auto& field : config_fields()) {
    const std::string limit = limit_text(field.limit);
    text += fmt::format("{:<40} {}{}\n", fmt::format("{} = {}", field.key, value_text(field, defaults)), field.meaning,
                        limit.empty() ? "" : fmt::format(" ({})", limit));
  }
  return text;
}

}  // namespace covnoise
