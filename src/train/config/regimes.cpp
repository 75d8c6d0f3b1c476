#include "covnoise/train/regimes.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"

#include <iterator>

namespace covnoise {
namespace {

struct Regime {
  std::string_view name, fragment;
};

// A regime is what these keys say and nothing else: no code asks for its name. A rate of 0 is the model's own for the
// batch.
constexpr Regime kRegimes[] = {
    {"sb", "train.batch = 128"},
    {"lb", "train.batch = 4096"},
    {"lb-diag", "train.batch = 4096\nnoise.structure = 'diag-fisher'"},
    {"lb-full", "train.batch = 4096\nnoise.structure = 'full-fisher'"},
    {"lb-true", "train.batch = 4096\nnoise.structure = 'true-fisher'"},
    {"lb-trace", "train.batch = 4096\nnoise.structure = 'fisher-trace'"},
    {"lb-kfac", "train.batch = 4096\nnoise.structure = 'kfac'"},
    {"lb-multiplicative", "train.batch = 4096\nnoise.structure = 'multiplicative'"},
    {"lb-isotropic", "train.batch = 4096\nnoise.structure = 'isotropic'"},
    {"batch-change", "train.batch = 128\ntrain.batch_schedule = [[0.25, 4096, 0]]"},
    {"lb-diag-match",
     "train.batch = 4096\nnoise.structure = 'diag-fisher'\nnoise.scale = 'match'\nnoise.placement = 'gradient'"},
};

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
  for (const auto& regime : kRegimes) names.emplace_back(regime.name);
  return names;
}

std::string_view regime_fragment(std::string_view name) {
  for (const auto& regime : kRegimes) {
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
