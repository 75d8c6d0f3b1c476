#include "train/ranks/rank_consistency.h"

#include "build_info.h"
#include "covnoise/data/internal/digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

namespace covnoise {
namespace {

/// What the two sides have to agree on besides the configuration.
nlohmann::json program_of_this_rank(const Config& config, const std::string& version) {
  return {{"version", version},
          {"LibTorch", TORCH_VERSION},
          {"device", config.run.device.substr(0, config.run.device.find(':'))},
          {"evaluations", fmt::format("{}, {}", config.train.eval_train, config.train.eval_every)},
          {"config", to_toml(config)}};
}

/// What all ranks refuse alike they say alike: none may take the others' end for a loss.
void refuse_together(Communicator& communicator, const std::string& message) {
  communicator.leave();
  throw Error(message);
}

std::vector<std::string> program_differences(const nlohmann::json& there, const nlohmann::json& here) {
  std::vector<std::string> lines;
  for (const char* key : {"version", "LibTorch", "device", "evaluations"}) {
    if (there.at(key) != here.at(key))
      lines.push_back(fmt::format("{}: {} there, {} on rank 0", key, there.at(key).dump(), here.at(key).dump()));
  }
  if (!lines.empty()) return lines;  // another program may write another configuration
  for (auto line : difference(parse_config(there.at("config").get<std::string>(), "another rank's configuration"),
                              parse_config(here.at("config").get<std::string>(), "rank 0's configuration"))) {
    lines.push_back(line.replace(line.rfind(" here"), 5, " on rank 0"));
  }
  return lines;
}

}  // namespace

std::string program_version() { return COVNOISE_VERSION; }

void refuse_other_training(Communicator& communicator, const Config& config, const std::string& version) {
  const auto all = communicator.all_gather(program_of_this_rank(config, version).dump());
  const auto first = nlohmann::json::parse(all[0]);
  for (int rank = 1; rank < communicator.size(); ++rank) {
    const auto lines = program_differences(nlohmann::json::parse(all[static_cast<std::size_t>(rank)]), first);
    if (lines.empty()) continue;
    refuse_together(communicator, fmt::format("rank {} ({}) was started for another training: {}", rank,
                                              communicator.name_of(rank), fmt::join(lines, "; ")));
  }
}

void refuse_other_data(Communicator& communicator, const DataSource& source) {
  const auto all = communicator.all_gather(data_digest(source));
  for (int rank = 1; rank < communicator.size(); ++rank) {
    if (all[static_cast<std::size_t>(rank)] == all[0]) continue;
    refuse_together(communicator, fmt::format("rank {} ({}) has other data of the name {}: its bytes are not rank 0's",
                                              rank, communicator.name_of(rank), source.name));
  }
}

}  // namespace covnoise
