#pragma once
#include "covnoise/noise/options.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace covnoise {

/// From `epoch` on, train with `batch` examples per step and the base learning rate `lr`.
struct BatchChange {
  double epoch = 0;        ///< below 1: that fraction of the training
  std::int64_t batch = 0;  ///< examples per step
  double lr = 0;           ///< base learning rate; 0: the model's default for this batch size
  friend bool operator==(const BatchChange& a, const BatchChange& b) {
    return a.epoch == b.epoch && a.batch == b.batch && a.lr == b.lr;
  }
};

// The limits of each key, and its help text, are in the table of src/train/config/config_fields.cpp (describe_keys()).

/// The [train] section: optimizer, schedules, and what is measured and kept.
struct TrainConfig {
  std::int64_t batch = 128;                  ///< examples per step
  std::int64_t epochs = 10;                  ///< passes over the training set
  double lr = 0;                             ///< base learning rate; 0: the model's default for this batch size
  std::string optimizer = "sgd";             ///< sgd or adamw
  double momentum = 0.9;                     ///< b <- momentum b + gradient; of adamw, beta1
  double beta2 = 0.999;                      ///< of adamw's second moment
  double eps = 1e-8;                         ///< of adamw, added to the root of the second moment
  bool nesterov = false;                     ///< Nesterov's momentum
  double weight_decay = 5e-4;                ///< times the weight, added to the gradient; of adamw, to the step
  std::vector<std::string> no_decay;         ///< patterns of parameters without weight decay: "*.bias", "*bn*"
  double clip_norm = 0;                      ///< largest norm of gradient plus noise; 0: no clipping
  double label_smoothing = 0;                ///< share of the target that is spread over all classes
  double ema = 0;                            ///< decay of the average of the weights that is evaluated; 0: none
  std::int64_t ghost_batch = 128;            ///< examples that are normalised together; 0: the whole batch
  std::int64_t micro_batch = 0;              ///< examples in memory at once; 0: chosen by the program
  double sharpness = 0;                      ///< rho: gradients at a distance of rho from theta; 0: at theta
  std::string sharpness_along = "gradient";  ///< theta + rho g_j / |g_j| of micro-batch j; momentum: - rho v / |v|
  std::int64_t sharpness_batch = 128;        ///< m: examples of each such micro-batch
  double sharpness_after = 0;        ///< fraction of the training after which it begins; steps before it are plain
  std::int64_t sharpness_every = 1;  ///< only every so many steps, those between are plain
  double warmup = 0;                 ///< linear warm-up: epochs, or below 1 a fraction of the training
  std::string schedule = "step";     ///< of the learning rate after the warm-up: step, cosine or constant
  std::vector<double> milestones = {0.5, 0.75};  ///< when the step schedule decays: epochs, or below 1 fractions
  double decay = 0.1;                            ///< factor of the learning rate at each milestone
  std::vector<BatchChange> batch_schedule;       ///< changes of the batch size during the training
  std::string eval_train = "never";   ///< evaluate on the training set: never, last (epoch) or every (evaluation)
  std::int64_t eval_every = 1;        ///< epochs between evaluations; 0: only after the last epoch
  std::int64_t log_every = 0;         ///< steps between records in the metrics; 0: about ten per epoch
  std::int64_t checkpoint_every = 1;  ///< epochs between checkpoints
  std::int64_t snapshot_every = 0;    ///< steps between networks that are kept for analyses; 0: none
  std::string precision = "fp32";     ///< fp32, fp64, tf32 or bf16; parameters stay in float32 with the last two
  std::string init;                   ///< safetensors file of the initial weights; empty: drawn by the seed
  bool init_partial = false;          ///< take the tensors of `init` that match, draw the others
  std::string init_sha256;            ///< of that file; empty: filled in by resolve_defaults

  /// Whether each micro-batch has a direction, and so passes, of its own.
  bool sharp_micro_batches() const { return sharpness > 0 && sharpness_along == "gradient"; }
  /// Whether every step with sharpness is sharp: then there are no plain steps with micro-batches of another size.
  bool always_sharp() const { return sharpness_after == 0 && sharpness_every == 1; }
};

/// The [data] section.
struct DataConfig {
  std::string name = "glyphs";   ///< data set; `data = "mnist"` in a recipe or override is short for `data.name`
  std::int64_t train_limit = 0;  ///< use only the first N training examples (of a folder set N drawn ones); 0: all
  std::int64_t test_limit = 0;   ///< use only the first N test examples (of a folder set N drawn ones); 0: all
  std::int64_t holdout = 0;      ///< N training examples are held out as the validation set: the last, or of a folder
                                 ///< set drawn by the seed
  std::string augment = "auto";  ///< pad, crop and flip: on, off, or auto, the data set's default
  std::int64_t resize = 0;       ///< folder: the shorter side of every image becomes this long; 0: as it is
  std::int64_t crop = 0;         ///< folder: then the central square of this side is cut out; 0: all of it
  double memory = 4;             ///< folder: a larger set, in GiB, is read from disk while training
};

/// The [run] section: how a training runs, not what is trained. Recorded, but ignored when configurations are compared.
struct RunConfig {
  std::int64_t threads = 0;    ///< CPU threads; 0: all
  std::string device = "cpu";  ///< cpu, cuda or cuda:N
  bool deterministic = false;  ///< on a GPU: the same bits in every run, by algorithms that may be slower
};

/// Everything that decides a training run.
struct Config {
  std::string model = "lenet";  ///< network: one of model_names()
  std::string regime = "sb";    ///< one of regime_names(): sets the defaults of other keys
  std::uint64_t seed = 0;       ///< of initialisation, data order, augmentation and noise
  TrainConfig train;            ///< [train]
  DataConfig data;              ///< [data]
  NoiseOptions noise;           ///< [noise]
  RunConfig run;                ///< [run]
};

/// Loads a configuration. Later sources win: defaults, the regime's fragment (train/regimes.h), the recipe's own keys,
/// the recipe's table [regimes.<regime>], `overrides` ("train.lr=0.2", values in TOML; a bare word is text) in their
/// order. The regime is that of the last override that names one, otherwise the recipe's, otherwise the default. The
/// result is checked as a whole.
Config load_config(const std::optional<std::filesystem::path>& recipe, const std::vector<std::string>& overrides);
/// The same for the text of a recipe, which errors call `name`.
Config load_recipe(std::string_view text, const std::string& name, const std::vector<std::string>& overrides);

/// A run's config.toml as to_checked_toml wrote it: no regime fragment is applied again. `overrides` come last, as
/// above. If the last line is a comment, it must be the checksum of the lines before it; files of earlier versions have
/// none.
Config read_config(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
/// The same for its text, which errors call `name`.
Config parse_config(std::string_view toml, const std::string& name);

/// Checks the limits of single values and of combinations (whole ghost batches); an Error gives the value and the
/// limit.
void check_config(const Config& config);
/// The part of it for batches and micro-batches, which are whole ghost batches if the network `normalises` by them.
/// check_config asks the table of models; this is for a network of your own.
void check_batches(const Config& config, bool normalises);

/// The resolved configuration: all keys in a fixed order, without comments; parse_config restores it exactly.
std::string to_toml(const Config& config);
/// The same with a last line "# sha256 ...", the checksum of the lines before it.
std::string to_checked_toml(const Config& config);

/// One line for each key that differs, except those that do not decide what is trained ([run], train.eval_*,
/// train.log_every, train.checkpoint_every, train.snapshot_every, train.init, data.memory): "train.lr: 0.1 there, 0.2
/// here".
std::vector<std::string> difference(const Config& there, const Config& here);

std::vector<std::string> config_keys();  ///< "train.lr", ...
/// Each key with its value as to_toml writes it, in the order of config_keys.
std::vector<std::pair<std::string, std::string>> config_values(const Config& config);
std::string describe_keys();  ///< one line per key: name, default, meaning

}  // namespace covnoise
