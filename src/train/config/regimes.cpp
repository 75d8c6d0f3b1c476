#include "covnoise/train/regimes.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/did_you_mean.h"

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

}  // namespace covnoise
