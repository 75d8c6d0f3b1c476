#include "covnoise/train/internal/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/noise/structure.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/schedule.h"

namespace covnoise {
namespace {

/// Letters, digits, underscores and dots; other characters become a dash. Long names end in a part of their checksum.
std::string safe_name(const std::string& text) {
  constexpr std::size_t kLongest = 80;
  std::string name;
  for (const char c : text) {
    const bool good = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c == '.' && !name.empty());
    if (good) name += c;
    if (!good && !name.empty() && name.back() != '-') name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  if (name.size() > kLongest) name = name.substr(0, kLongest - 9) + "-" + sha256_hex(text).substr(0, 8);
  return name;
}

/// "-b256-lr0.2-e3": batch, learning rate and epochs, each only where it is not the default of regime and model.
std::string unusual_settings(const Config& config) {
  Config usual = load_config({}, {"regime=" + config.regime});
  usual.model = config.model;
  std::string text;
  if (config.train.batch != usual.train.batch) text += fmt::format("-b{}", config.train.batch);
  usual.train.batch = config.train.batch;  // its default learning rate is that of the batch
  resolve_defaults(usual);
  if (config.train.lr != usual.train.lr) text += fmt::format("-lr{}", config.train.lr);
  if (config.train.epochs != usual.train.epochs) text += fmt::format("-e{}", config.train.epochs);
  return text;
}

FileLock taken_lock(const RunFolder& folder) {
  create_folders(folder.root);
  auto lock = FileLock::try_take(folder.lock());
  require(lock.has_value(), fmt::format("{} is in use by another covnoise process; wait for it or choose another --out",
                                        folder.root.string()));
  return std::move(*lock);
}

}  // namespace

std::filesystem::path RunFolder::snapshot(std::int64_t step) const {
  return snapshots() / fmt::format("step-{:08}.safetensors", step);
}

std::filesystem::path default_run_name(const Config& config) {
  return std::filesystem::path("runs") / fmt::format("{}-{}-{}{}-s{}", safe_name(config.model),
                                                     safe_name(config.data.name), safe_name(config.regime),
                                                     unusual_settings(config), config.seed);
}

void refuse_other_configuration(const RunFolder& folder, const Config& here) {
  refuse_other_configuration(folder, here, !make_structure(here.noise)->is_zero());
}

void refuse_other_configuration(const RunFolder& folder, const Config& here, bool noisy) {
  Config there = read_config(folder.config());
  const std::int64_t epochs = there.train.epochs;
  there.train.epochs = std::max(epochs, here.train.epochs);  // a run may be continued
  const auto lines = difference(there, here);
  require(lines.empty(), fmt::format("{} holds a run of another configuration ({}); choose another folder with --out",
                                     folder.root.string(), fmt::join(lines, "; ")));
  const auto relative = settings_relative_to_epochs(here, noisy);
  require(epochs == here.train.epochs || relative.empty(),
          fmt::format("{} holds a run of {} epochs that cannot be continued to {}, because its first epochs would have "
                      "been other ones ({}); choose another folder with --out",
                      folder.root.string(), epochs, here.train.epochs, fmt::join(relative, "; ")));
}

void record_configuration(const RunFolder& folder, const Config& config) {
  if (!std::filesystem::exists(folder.config())) return write_file_synced(folder.config(), to_checked_toml(config));
  Config there = read_config(folder.config());
  if (there.train.epochs == config.train.epochs) return;
  there.train.epochs = config.train.epochs;
  write_file_synced(folder.config(), to_checked_toml(there));
}

RunLock::RunLock(const RunFolder& folder) : lock_(taken_lock(folder)) {}

}  // namespace covnoise
