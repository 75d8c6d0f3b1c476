#include "train/config/config_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "covnoise/core/internal/toml_text.h"
#include "covnoise/noise/structure.h"

namespace covnoise {
namespace {

Limit any() { return {}; }
Limit at_least(double least) { return {least, 1e300, false, {}, {}}; }
Limit between(double least, double most) { return {least, most, false, {}, {}}; }
Limit from_to_below(double least, double most) { return {least, most, true, {}, {}}; }
Limit one_of(std::vector<std::string> choices) { return {-1e300, 1e300, false, std::move(choices), {}}; }
Limit entries() { return {-1e300, 1e300, false, {}, "epochs and learning rates of at least 0, batches of at least 1"}; }

Limit toml_unsigned() { return {0, 9223372036854775807.0, false, {}, "from 0 to 9223372036854775807"}; }

#define COVNOISE_FIELD(path, limit, meaning)                            \
  Field {                                                               \
#path, [](Config & c) -> Member { return &c.path; }, limit, meaning \
  }

std::vector<Field> make_fields() {
  return {
      COVNOISE_FIELD(model, any(), "network (covnoise models lists them)"),
      COVNOISE_FIELD(regime, any(),
                     "small batch, large batch, or large batch with noise; sets the defaults of other keys"),
      COVNOISE_FIELD(seed, toml_unsigned(), "of initialisation, data order, augmentation and noise"),

      COVNOISE_FIELD(train.batch, at_least(1), "examples per step"),
      COVNOISE_FIELD(train.epochs, between(1, 1e6), "passes over the training set"),
      COVNOISE_FIELD(train.lr, at_least(0), "base learning rate; 0: the model's default for this batch size"),
      COVNOISE_FIELD(train.optimizer, one_of({"sgd", "adamw"}), "what updates the parameters"),
      COVNOISE_FIELD(train.momentum, from_to_below(0, 1), "b <- momentum b + gradient; of adamw, beta1"),
      COVNOISE_FIELD(train.beta2, from_to_below(0, 1), "of adamw's second moment"),
      COVNOISE_FIELD(train.eps, at_least(1e-16), "of adamw, added to the root of the second moment"),
      COVNOISE_FIELD(train.nesterov, any(), "Nesterov's momentum"),
      COVNOISE_FIELD(train.weight_decay, at_least(0), "times the weight, added to the gradient"),
      COVNOISE_FIELD(train.no_decay, any(), "patterns of parameters without weight decay: [\"*.bias\", \"*bn*\"]"),
      COVNOISE_FIELD(train.clip_norm, at_least(0),
                     "largest norm of gradient plus noise (with noise.clip_norm: of the gradient); 0: no clipping"),
      COVNOISE_FIELD(train.label_smoothing, from_to_below(0, 1),
                     "share of the target that is spread evenly over all classes"),
      COVNOISE_FIELD(train.ema, from_to_below(0, 1),
                     "decay of the exponential average of the weights that is evaluated and saved; 0: none"),
      COVNOISE_FIELD(train.ghost_batch, at_least(0),
                     "examples normalised together, a smaller batch at once; 0: the whole batch; of a network of "
                     "your own, what its layers say"),
      COVNOISE_FIELD(train.micro_batch, at_least(0), "examples in memory at once; 0: chosen by the program"),
      COVNOISE_FIELD(
          train.sharpness, at_least(0),
          "rho: each micro-batch's gradient is taken at weights + rho g/|g|, g its own one; 0: at the weights"),
      COVNOISE_FIELD(
          train.sharpness_along, one_of({"gradient", "momentum"}),
          "gradient: as above, in two passes; momentum: at weights - rho v/|v|, v the momentum buffer, in one"),
      COVNOISE_FIELD(train.sharpness_batch, at_least(1), "examples of each such micro-batch, whole ghost batches"),
      COVNOISE_FIELD(train.sharpness_after, from_to_below(0, 1),
                     "fraction of the training after which train.sharpness begins"),
      COVNOISE_FIELD(train.sharpness_every, at_least(1), "sharp steps: every so many; those between are plain"),
      COVNOISE_FIELD(train.warmup, at_least(0), "linear warm-up: epochs, or below 1 a fraction of the training"),
      COVNOISE_FIELD(train.schedule, one_of({"step", "cosine", "constant"}), "of the learning rate after the warm-up"),
      COVNOISE_FIELD(train.milestones, at_least(0), "when the step schedule decays: epochs, or below 1 fractions"),
      COVNOISE_FIELD(train.decay, at_least(0), "factor of the learning rate at each milestone"),
      COVNOISE_FIELD(train.batch_schedule, entries(),
                     "[[epoch, batch, lr], ...]: batch size and base learning rate from then on"),
      COVNOISE_FIELD(train.eval_train, one_of({"never", "last", "every"}),
                     "evaluate on the training set as well: after the last epoch, or at every evaluation"),
      COVNOISE_FIELD(train.eval_every, at_least(0), "epochs between evaluations; 0: only after the last epoch"),
      COVNOISE_FIELD(train.log_every, at_least(0), "steps between records in the metrics; 0: about ten per epoch"),
      COVNOISE_FIELD(train.checkpoint_every, at_least(1), "epochs between checkpoints"),
      COVNOISE_FIELD(train.snapshot_every, at_least(0), "steps between networks kept for analyses; 0: none"),
      COVNOISE_FIELD(train.precision, one_of({"fp32", "fp64", "tf32", "bf16"}),
                     "of the arithmetic; tf32 and bf16 on a GPU, with parameters in float32"),
      COVNOISE_FIELD(train.init, any(), "safetensors file of the initial weights; empty: drawn by the seed"),
      COVNOISE_FIELD(train.init_partial, any(), "take the tensors of train.init that match, draw the others"),
      COVNOISE_FIELD(train.init_sha256, any(), "of train.init; filled in by the program"),

      COVNOISE_FIELD(data.name, any(), "data set (covnoise data list lists them); `data = NAME` is short for it"),
      COVNOISE_FIELD(data.train_limit, at_least(0),
                     "use only the first N training examples (of a folder N drawn ones); 0: all"),
      COVNOISE_FIELD(data.test_limit, at_least(0),
                     "use only the first N test examples (of a folder N drawn ones), for quick tries; 0: all"),
      COVNOISE_FIELD(data.holdout, at_least(0),
                     "hold out the last N training examples (of a folder N drawn ones) for val_accuracy"),
      COVNOISE_FIELD(data.augment, one_of({"auto", "on", "off"}), "pad, crop and flip; auto: the data set's default"),
      COVNOISE_FIELD(data.resize, at_least(0), "folder: length of the shorter side of every image; 0: as it is"),
      COVNOISE_FIELD(data.crop, at_least(0), "folder: side of the central square, after data.resize; 0: all of it"),
      COVNOISE_FIELD(data.memory, at_least(0), "folder: a larger set, in GiB, is read from disk while training"),

      COVNOISE_FIELD(noise.structure, one_of(structure_names()), "covariance of the noise added to the gradient"),
      COVNOISE_FIELD(noise.estimator, one_of({"auto", "exact", "ghost", "micro", "signs", "spatial"}),
                     "of the diagonal; auto: ghost with batch normalisation, otherwise exact; micro for own layers"),
      COVNOISE_FIELD(noise.labels, one_of({"data", "model"}),
                     "of the Fisher matrix: the data's, or sampled from the model"),
      COVNOISE_FIELD(noise.group, at_least(0),
                     "examples per group of the ghost estimator and of the penalty; 0: noise.small_batch"),
      COVNOISE_FIELD(noise.small_batch, at_least(1), "batch size whose noise is imitated"),
      COVNOISE_FIELD(noise.scale, at_least(0),
                     "factor of the formula's scale, or \"match\": the small batch's temperature"),
      COVNOISE_FIELD(noise.match_lr, at_least(0),
                     "learning rate of the small batch, for match; 0: the model's default"),
      COVNOISE_FIELD(noise.match_momentum, from_to_below(0, 1), "momentum of the small batch, for match"),
      COVNOISE_FIELD(noise.match_schedule, one_of({"", "step", "cosine", "constant"}),
                     "schedule of the small batch, for match; empty: that of this training, with match_lr = 0 that of "
                     "the regime sb"),
      COVNOISE_FIELD(noise.match_warmup, at_least(-1),
                     "warm-up of the small batch, for match, as train.warmup; -1: that of this training, with match_lr "
                     "= 0 that of sb"),
      COVNOISE_FIELD(noise.placement, one_of({"update", "gradient", "weights"}),
                     "after the momentum buffer, through it, or in the weights at which the gradient is taken"),
      COVNOISE_FIELD(noise.radius, at_least(0),
                     "norm of noise in the weights, over all parameters; 0: noise.scale decides"),
      COVNOISE_FIELD(noise.clip_norm, at_least(0),
                     "largest norm of the noise, clipped apart from the gradient; 0: train.clip_norm clips their sum"),
      COVNOISE_FIELD(noise.stop_after, between(0, 1), "fraction of the training with noise"),
      COVNOISE_FIELD(noise.refresh, at_least(1), "steps between measurements of the statistics"),
      COVNOISE_FIELD(noise.sigma, at_least(0), "strength of multiplicative and isotropic noise"),
      COVNOISE_FIELD(noise.penalty, at_least(0),
                     "lambda: trains on L + (lambda/2) mean_j |g_j|^2, g_j the gradients of groups; 0: none"),
      COVNOISE_FIELD(noise.penalty_every, at_least(1), "steps between penalties, each of so many times the weight"),
      COVNOISE_FIELD(noise.penalty_step, at_least(1e-12), "length of the step of the penalty's finite difference"),

      COVNOISE_FIELD(run.threads, between(0, 4096), "CPU threads; 0: all"),
      COVNOISE_FIELD(run.device, any(), "cpu, cuda or cuda:N"),
      COVNOISE_FIELD(run.deterministic, any(),
                     "on a GPU: the same bits in every run, by algorithms that may be slower"),
  };
}

#undef COVNOISE_FIELD

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return fmt::to_string(value); }
std::string text_of(std::uint64_t value) { return fmt::to_string(value); }

std::string text_of(double value) {
  std::string text = fmt::to_string(value);  // the shortest that comes back exactly
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string text_of(const std::string& value) { return quoted_text(value); }
std::string text_of(Labels labels) { return fmt::format("\"{}\"", labels_name(labels)); }
std::string text_of(Placement placement) { return fmt::format("\"{}\"", placement_name(placement)); }
std::string text_of(const NoiseScale& scale) { return scale.match ? "\"match\"" : text_of(scale.factor); }

std::string text_of(const BatchChange& change) {
  return fmt::format("[{}, {}, {}]", text_of(change.epoch), change.batch, text_of(change.lr));
}

template <typename T>
std::string text_of(const std::vector<T>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const auto& value : values) texts.push_back(text_of(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

bool allowed(const Limit& limit, double value) {
  return std::isfinite(value) && value >= limit.least && (limit.below_most ? value < limit.most : value <= limit.most);
}

bool allowed(const Limit&, bool) { return true; }
bool allowed(const Limit&, Labels) { return true; }
bool allowed(const Limit&, Placement) { return true; }
bool allowed(const Limit& limit, std::int64_t value) { return allowed(limit, static_cast<double>(value)); }
bool allowed(const Limit& limit, std::uint64_t value) { return allowed(limit, static_cast<double>(value)); }
bool allowed(const Limit& limit, const NoiseScale& scale) { return scale.match || allowed(limit, scale.factor); }
bool allowed(const Limit& limit, const std::string& value) {
  const auto& choices = limit.choices;
  return choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end();
}
bool allowed(const Limit&, const BatchChange& change) {
  return allowed(at_least(0), change.epoch) && change.batch >= 1 && allowed(at_least(0), change.lr);
}
template <typename T>
bool allowed(const Limit& limit, const std::vector<T>& values) {
  return std::all_of(values.begin(), values.end(), [&](const T& value) { return allowed(limit, value); });
}

template <typename T>
bool finite(const T&) {
  return true;
}
bool finite(double value) { return std::isfinite(value); }
bool finite(const NoiseScale& scale) { return finite(scale.factor); }
bool finite(const BatchChange& change) { return finite(change.epoch) && finite(change.lr); }
template <typename T>
bool finite(const std::vector<T>& values) {
  return std::all_of(values.begin(), values.end(), [](const T& value) { return finite(value); });
}

/// Runs `visitor` with the member's value.
template <typename Visitor>
auto visit_value(const Field& field, const Config& config, Visitor visitor) {
  // The table has one kind of accessor, that of the parser; nothing is written here.
  return std::visit([&](const auto* value) { return visitor(*value); }, field.member(const_cast<Config&>(config)));
}

}  // namespace

const char* labels_name(Labels labels) { return labels == Labels::kModel ? "model" : "data"; }

const char* placement_name(Placement placement) {
  if (placement == Placement::kWeights) return "weights";
  return placement == Placement::kGradient ? "gradient" : "update";
}

std::string Field::section() const {
  const auto dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string Field::name() const { return key.substr(key.find('.') + 1); }

bool Field::decides_training() const {
  static const std::set<std::string> others = {"train.eval_train", "train.eval_every",       "train.log_every",
                                               "train.init",       "train.checkpoint_every", "train.snapshot_every",
                                               "data.memory"};
  return section() != "run" && others.count(key) == 0;
}

const std::vector<Field>& config_fields() {
  static const std::vector<Field> fields = make_fields();
  return fields;
}

std::string value_text(const Field& field, const Config& config) {
  return visit_value(field, config, [](const auto& value) { return text_of(value); });
}

std::string limit_text(const Limit& limit) {
  if (!limit.text.empty()) return limit.text;
  if (!limit.choices.empty()) {
    const bool may_be_empty = limit.choices.front().empty();
    return fmt::format("{}one of {}", may_be_empty ? "empty or " : "",
                       fmt::join(limit.choices.begin() + (may_be_empty ? 1 : 0), limit.choices.end(), ", "));
  }
  const std::string least = limit.least > -1e300 ? fmt::format("at least {}", limit.least) : "";
  const std::string most =
      limit.most < 1e300 ? fmt::format("{} {}", limit.below_most ? "below" : "at most", limit.most) : "";
  return least + (least.empty() || most.empty() ? "" : " and ") + most;
}

std::string broken_limit(const Field& field, const Config& config) {
  if (visit_value(field, config, [&](const auto& value) { return allowed(field.limit, value); })) return "";
  const std::string text = limit_text(field.limit);
  if (visit_value(field, config, [](const auto& value) { return finite(value); })) return "must be " + text;
  return "must be finite" + (text.empty() ? "" : " and " + text);
}

}  // namespace covnoise
