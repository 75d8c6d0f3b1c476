#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/train/run_summary.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace covnoise {

void add_runs_command(CLI::App& app) {
  auto root = std::make_shared<std::string>("runs");
  auto* command = app.add_subcommand("runs", "List the runs in a folder with their accuracies");
  command->add_option("folder", *root, "folder to search (default: runs)");
  command->callback([root] {
    const auto runs = find_runs(*root);
    if (runs.empty()) throw Error(fmt::format("no runs in {}; covnoise train makes one", *root));
    std::fputs(runs_table(runs).c_str(), stdout);
  });
}

}  // namespace covnoise
