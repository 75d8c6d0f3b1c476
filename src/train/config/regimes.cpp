#include "covnoise/train/regimes.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"

#include <iterator>

namespace covnoise {
namespace {

struct Regime {
  std::string name, fragment;
};

/// What a large batch trains well with, and the keys that make the regime. The learning rate is the model's own for the
/// batch (0).
Regime large(const std::string& name, const std::string& keys = "") {
  return {name, "train.batch = 4096\ntrain.schedule = 'cosine'\ntrain.warmup = 0.2\ntrain.clip_norm = 1\n" + keys};
}

Regime large_with_noise(const std::string& name, const std::string& structure) {
  return large(name, "noise.structure = '" + structure + "'");
}

// A regime is what these keys say and nothing else: no code asks for its name.
const std::vector<Regime>& regimes() {
  static const std::vector<Regime> all = {
      {"sb", "train.batch = 128"},
      large("lb"),
      large_with_noise("lb-diag", "diag-fisher"),
      large_with_noise("lb-full", "full-fisher"),
      large_with_noise("lb-true", "true-fisher"),
      large_with_noise("lb-trace", "fisher-trace"),
      large_with_noise("lb-kfac", "kfac"),
      large_with_noise("lb-multiplicative", "multiplicative"),
      large_with_noise("lb-isotropic", "isotropic"),
      {"batch-change",
       "train.batch = 128\ntrain.batch_schedule = [[0.25, 4096, 0]]\ntrain.schedule = 'cosine'\ntrain.clip_norm = 1"},
      large("lb-diag-match", "noise.structure = 'diag-fisher'\nnoise.scale = 'match'\nnoise.placement = 'gradient'"),
  };
  return all;
}

struct Summary {
  std::string_view name, text;
};

constexpr Summary kSummaries[] = {
    {"sb", "small batch"},
    {"lb", "large batch"},
    {"lb-diag", "large batch with diagonal Fisher noise"},
    {"lb-full", "large batch with noise of the whole Fisher matrix"},
    {"lb-true", "the same with labels sampled from the model"},
    {"lb-trace", "large batch with isotropic noise of the Fisher diagonal's mean"},
    {"lb-kfac", "large batch with Kronecker-factored Fisher noise"},
    {"lb-multiplicative", "large batch whose gradient is multiplied by 1 + sigma xi"},
    {"lb-isotropic", "large batch with isotropic noise of constant strength"},
    {"batch-change", "small batch first, then large batch"},
    {"lb-diag-match", "large batch with diagonal Fisher noise at the small batch's temperature"},
};
static_assert(std::size(kSummaries) == std::size(kRegimes), "every regime has a summary");

}  // namespace

std::vector<std::string> regime_names() {
  std::vector<std::string> names;
  for (const auto& regime : regimes()) names.push_back(regime.name);
  return names;
}

std::string_view regime_fragment(std::string_view name) {
  for (const auto& regime : regimes()) {
    if (regime.name == name) return regime.fragment;
  }
  throw Error(unknown_name("regime", name, regime_names()));
}

std::string_view regime_summary(std::string_view name) {
  for (const auto& summary : kSummaries) {
    if (summary.name == name) return summary.text;
  }
  throw Error(unknown_name("regime", name, regime_names()));
}

}  // namespace covnoise
