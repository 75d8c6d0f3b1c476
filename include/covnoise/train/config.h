#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace covnoise {

/// From `epoch` on (below 1: that fraction of the training), train with `batch` examples a step and base rate `lr`.
struct BatchChange {
  double epoch = 0;
  std::int64_t batch = 0;
  double lr = 0;  ///< 0: the model's default rate for this batch
  friend bool operator==(const BatchChange& a, const BatchChange& b) {
    return a.epoch == b.epoch && a.batch == b.batch && a.lr == b.lr;
  }
};

/// noise.scale: a factor of the formula's s, or "match", the small batch's temperature.
struct NoiseScale {
  bool match = false;
  double factor = 1;  ///< unused where match
  friend bool operator==(const NoiseScale& a, const NoiseScale& b) {
    return a.match == b.match && (a.match || a.factor == b.factor);
  }
};

// What each key means, its limits and its text for users stand once, in the table of config.cpp (describe_keys()).

struct TrainConfig {
  std::int64_t batch = 128, epochs = 10;
  double lr = 0, momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 5e-4, clip_norm = 0;
  std::int64_t ghost_batch = 128, micro_batch = 0;
  double warmup = 0;
  std::string schedule = "step";
  std::vector<double> milestones = {0.5, 0.75};
  double decay = 0.1;
  std::vector<BatchChange> batch_schedule;
  std::string eval_train = "never";
  std::int64_t eval_every = 1;
  std::int64_t log_every = 0, checkpoint_every = 1, snapshot_every = 0;
  std::string precision = "fp32";
};

struct DataConfig {
  std::string name = "glyphs";  ///< `data = "mnist"` in a recipe or override is short for `data.name`
  std::int64_t train_limit = 0, test_limit = 0, holdout = 0;
  std::string augment = "auto";
};

struct NoiseConfig {
  std::string structure = "none", estimator = "auto", labels = "data";
  std::int64_t small_batch = 128;
  NoiseScale scale;
  double match_lr = 0, match_momentum = 0.9;
  std::string placement = "update";
  double stop_after = 0.25;
  std::int64_t refresh = 1;
  double sigma = 0.1;
};

/// How, not what: recorded, but no part of the comparison of two configurations.
struct RunConfig {
  std::int64_t threads = 0;
  std::string device = "cpu";
  bool deterministic = false;
};

/// Everything that decides a training run.
struct Config {
  std::string model = "lenet", regime = "sb";
  std::uint64_t seed = 0;
  TrainConfig train;
  DataConfig data;
  NoiseConfig noise;
  RunConfig run;
};

/// Later ones win: defaults, the regime's fragment (train/regimes.h), the recipe's own keys, the recipe's table
/// [regimes.<regime>], `overrides` ("train.lr=0.2", values in TOML; a bare word is taken for text) in their order. The
/// regime is that of the last override that names one, else the recipe's, else the default. Checked as a whole.
Config load_config(const std::optional<std::filesystem::path>& recipe, const std::vector<std::string>& overrides);
/// The same for a recipe's text; errors call it `name`.
Config load_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides);

/// A run's config.toml as to_toml wrote it: no regime fragment is applied again. `overrides` on top, as above.
Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
Config parse_config(std::string_view toml, const std::string& name);

/// Limits of single values and of their combinations (whole ghost batches); an Error gives value and limit.
void check_config(const Config& config);

/// The resolved configuration: all keys in a fixed order, without comments; parse_config gives it back exactly.
std::string to_toml(const Config& config);

/// One line for each key that differs, but for those that do not decide what is trained ([run], train.eval_*):
/// "train.lr: 0.1 there, 0.2 here".
std::vector<std::string> difference(const Config& there, const Config& here);

std::vector<std::string> config_keys();  ///< "train.lr", ...
/// Each key with its value as to_toml writes it, in the order of config_keys.
std::vector<std::pair<std::string, std::string>> config_values(const Config& config);
std::string describe_keys();  ///< a line for each key: name, default, what it means

}  // namespace covnoise
