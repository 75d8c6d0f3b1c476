#include "commands/commands.h"
#include "covnoise/train/regimes.h"

#include <fmt/format.h>

#include <string>

namespace covnoise {
namespace {

void print_regimes() {
  for (const auto& name : regime_names()) {
    std::string keys(regime_fragment(name));
    for (auto at = keys.find('\n'); at != std::string::npos; at = keys.find('\n', at)) keys.replace(at, 1, ", ");
    fmt::print("{:<18} {} ({})\n", name, regime_summary(name), keys);
  }
}

}  // namespace

void add_regimes_command(CLI::App& app) {
  app.add_subcommand("regimes", "List the regimes, each with the keys it sets")->callback(print_regimes);
}

}  // namespace covnoise
