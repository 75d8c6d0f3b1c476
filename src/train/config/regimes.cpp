#include "covnoise/train/regimes.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"

namespace covnoise {
namespace {

struct Regime {
  std::string name, summary, fragment;
};

/// What a large batch trains well with, and further lines that make the regime. The learning rate is the model's own
/// for the batch (0).
Regime large(const std::string& name, const std::string& summary, const std::string& keys = "") {
  return {name, summary,
          "train.batch = 4096\ntrain.schedule = 'cosine'\ntrain.warmup = 0.2\ntrain.clip_norm = 1" + keys};
}

Regime large_with_noise(const std::string& name, const std::string& structure, const std::string& summary) {
  return large(name, summary, "\nnoise.structure = '" + structure + "'");
}

// A regime is what these keys say and nothing else: no code asks for its name.
const std::vector<Regime>& regimes() {
  static const std::vector<Regime> all = {
      {"sb", "small batch", "train.batch = 128"},
      large("lb", "large batch"),
      large_with_noise("lb-diag", "diag-fisher", "large batch with diagonal Fisher noise"),
      large_with_noise("lb-full", "full-fisher", "large batch with noise of the whole Fisher matrix"),
      large_with_noise("lb-true", "true-fisher", "the same with labels sampled from the model"),
      large_with_noise("lb-trace", "fisher-trace", "large batch with isotropic noise of the Fisher diagonal's mean"),
      large_with_noise("lb-kfac", "kfac", "large batch with Kronecker-factored Fisher noise"),
      large_with_noise("lb-multiplicative", "multiplicative",
                       "large batch whose gradient is multiplied by 1 + sigma xi"),
      large_with_noise("lb-isotropic", "isotropic", "large batch with isotropic noise of constant strength"),
      {"batch-change", "small batch first, then large batch",
       "train.batch = 128\ntrain.batch_schedule = [[0.25, 4096, 0]]\ntrain.schedule = 'cosine'\ntrain.clip_norm = 1"},
      large("lb-diag-match", "large batch with diagonal Fisher noise at the small batch's temperature",
            "\nnoise.structure = 'diag-fisher'\nnoise.scale = 'match'\nnoise.placement = 'gradient'"),
  };
  return all;
}

const Regime& find_regime(std::string_view name) {
  for (const auto& regime : regimes()) {
    if (regime.name == name) return regime;
  }
  throw Error(unknown_name("regime", name, regime_names()));
}

}  // namespace

std::vector<std::string> regime_names() {
  std::vector<std::string> names;
  for (const auto& regime : regimes()) names.push_back(regime.name);
  return names;
}

std::string_view regime_fragment(std::string_view name) { return find_regime(name).fragment; }

std::string_view regime_summary(std::string_view name) { return find_regime(name).summary; }

}  // namespace covnoise
