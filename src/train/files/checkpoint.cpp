#include "covnoise/train/internal/checkpoint.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>

#include <algorithm>
#include <array>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"

namespace covnoise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSums = "SHA256SUMS";
constexpr const char* kInterrupted = "-interrupted";
constexpr const char* kHidden = ".step-";  // prefix of folders that are not yet, or no longer, checkpoints
constexpr int kVersion = 1;

enum Part { kModel, kOptimizer, kState };
constexpr std::array<const char*, 3> kParts = {"model.safetensors", "optimizer.safetensors", "state.json"};
using Bytes = std::array<std::string, 3>;  // of the parts

std::string folder_name(std::int64_t step, bool scheduled) {
  return fmt::format("step-{:08}{}", step, scheduled ? "" : kInterrupted);
}

std::optional<CheckpointStore::Entry> parse_name(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto digits = std::min(name.find_first_not_of("0123456789", 5), name.size());
  if (name.compare(0, 5, "step-") != 0 || digits <= 5 || digits > 5 + 18) return {};
  CheckpointStore::Entry entry{std::stoll(name.substr(5, digits - 5)), digits == name.size(), path};
  // Names that are merely similar are refused.
  return name == folder_name(entry.step, entry.scheduled) ? std::optional(entry) : std::nullopt;
}

/// As `sha256sum` prints it.
std::string sums_text(const Bytes& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += fmt::format("{}  {}\n", sha256_hex(parts[i]), kParts[i]);
  return text;
}

std::string state_text(const nlohmann::json& state, std::int64_t step, bool scheduled,
                       std::optional<std::int64_t> best) {
  nlohmann::json whole = {{"version", kVersion}, {"step", step}, {"scheduled", scheduled}, {"state", state}};
  whole["best_step"] = best ? nlohmann::json(*best) : nlohmann::json();
  std::string text = whole.dump() + "\n";
  TORCH_CHECK(nlohmann::json::parse(text) == whole, "a checkpoint's state holds a number that is not finite: ", text);
  return text;
}

/// The file whose checksum differs, for the message.
std::string damaged_part(const Bytes& parts, const std::string& sums) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string line = fmt::format("{}  {}\n", sha256_hex(parts[i]), kParts[i]);
    if (sums.find(line) == std::string::npos) return kParts[i];
  }
  return kSums;
}

void read_state(const std::string& text, LoadedCheckpoint& loaded) {
  const auto whole = nlohmann::json::parse(text);
  if (whole.at("version") != kVersion)
    throw Error(fmt::format("has format {}, expected {}", whole.at("version").dump(), kVersion));
  loaded.step = whole.at("step").get<std::int64_t>();
  loaded.scheduled = whole.at("scheduled").get<bool>();
  if (!whole.at("best_step").is_null()) loaded.best_step = whole.at("best_step").get<std::int64_t>();
  loaded.checkpoint.state = whole.at("state");
}

/// Renames the folder `temporary` to `target`, atomically even if `target` exists.
void put_in_place(const fs::path& temporary, const fs::path& target) {
  if (fs::exists(target) && ::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return sync_folder(target.parent_path());
  }
  remove_tree(target);  // only if the file system cannot exchange folders; the rename reports any problem
  rename_synced(temporary, target);
}

/// Renames the folder first, so that a kill in between leaves no partial checkpoint. What cannot be removed now is
/// tried again at the next save.
void discard(const fs::path& path) {
  std::error_code ignored;
  fs::path hidden = path;
  if (path.filename().string().compare(0, 1, ".") != 0) {
    hidden = path.parent_path() / ("." + path.filename().string() + ".old");
    remove_tree(hidden);
    fs::rename(path, hidden, ignored);
  }
  remove_tree(hidden);
}

[[noreturn]] void refuse(const Error& error) {
  throw Error(fmt::format("{}; --allow-older uses the newest intact one", error.what()));
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder) : folder_(std::move(folder)) {}

std::vector<CheckpointStore::Entry> CheckpointStore::list() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    if (auto entry = parse_name(it->path())) entries.push_back(std::move(*entry));
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw Error(fmt::format("cannot read folder {}: {}", folder_.string(), error.message()));
  }
  // Of two checkpoints of one step, the scheduled one is newer.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.step, a.scheduled) < std::pair(b.step, b.scheduled);
  });
  return entries;
}

void CheckpointStore::save(const Checkpoint& checkpoint, std::int64_t step, bool scheduled,
                           std::optional<std::int64_t> best_step) {
  if (!scheduled && fs::exists(folder_ / folder_name(step, true))) return;
  const Bytes parts = {encode_safetensors({checkpoint.model, {{"format", "pt"}}}),
                       encode_safetensors({checkpoint.optimizer, {{"format", "pt"}}}),
                       state_text(checkpoint.state, step, scheduled, best_step)};
  if (!fs::exists(folder_)) {
    create_folders(folder_);
    sync_folder(fs::absolute(folder_).parent_path());
  }
  const fs::path target = folder_ / folder_name(step, scheduled);
  const fs::path temporary = folder_ / ("." + target.filename().string() + ".tmp");
  try {
    discard(temporary);
    create_folders(temporary);
    for (std::size_t i = 0; i < parts.size(); ++i) write_new_file_synced(temporary / kParts[i], parts[i]);
    write_new_file_synced(temporary / kSums, sums_text(parts));
    sync_folder(temporary);
    put_in_place(temporary, target);
  } catch (...) {
    discard(temporary);
    throw;
  }
  remove_unneeded(step, scheduled, best_step, /*later_ones=*/true);
}

void CheckpointStore::remove_unneeded(std::int64_t step, bool scheduled, std::optional<std::int64_t> best_step,
                                      bool later_ones) const {
  const auto entries = list();
  int newer = 0;  // scheduled checkpoints seen so far, except those of later steps
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    bool keep = false;
    if (entry->step > step) {
      keep = !later_ones;  // left by an earlier attempt: the run was resumed from an older checkpoint
    } else if (entry->scheduled) {
      keep = newer++ < 2 || best_step == entry->step;
    } else {
      keep = !scheduled && entry->step == step;
    }
    if (!keep) discard(entry->path);
  }
  std::vector<fs::path> hidden;
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(folder_, ignored)) {
    if (item.path().filename().string().compare(0, 6, kHidden) == 0) hidden.push_back(item.path());
  }
  for (const auto& path : hidden) discard(path);
}

void CheckpointStore::clean(const LoadedCheckpoint& latest) const {
  remove_unneeded(latest.step, latest.scheduled, latest.best_step, /*later_ones=*/false);
}

LoadedCheckpoint CheckpointStore::load(const fs::path& folder) {
  const fs::path path = folder.has_filename() ? folder : folder.parent_path();
  const auto damaged = [&](const std::string& what) {
    throw Error(fmt::format("checkpoint {} is damaged: {}", path.string(), what));
  };
  Bytes parts;
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = read_file(path / kParts[i]);
  const std::string sums = read_file(path / kSums);
  if (sums != sums_text(parts)) damaged(damaged_part(parts, sums) + " does not match its checksum");

  LoadedCheckpoint loaded;
  loaded.path = path;
  loaded.checkpoint.model = decode_safetensors(parts[kModel], (path / kParts[kModel]).string()).tensors;
  loaded.checkpoint.optimizer = decode_safetensors(parts[kOptimizer], (path / kParts[kOptimizer]).string()).tensors;
  try {
    read_state(parts[kState], loaded);
  } catch (const std::exception& error) {
    damaged(fmt::format("{}: {}", kParts[kState], error.what()));
  }
  const auto name = parse_name(path);
  if (name && (name->step != loaded.step || name->scheduled != loaded.scheduled)) {
    damaged(fmt::format("it belongs to step {}", loaded.step));
  }
  return loaded;
}

std::optional<LoadedCheckpoint> CheckpointStore::load_latest(const Warn& warn, IfDamaged damaged) const {
  const auto entries = list();
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    try {
      return load(entry->path);
    } catch (const Error& error) {
      if (damaged == IfDamaged::kRefuse) refuse(error);
      warn(fmt::format("{}; trying the previous one", error.what()));
    }
  }
  if (entries.empty()) return {};
  throw Error(fmt::format("no checkpoint in {} is intact; start again in a new folder", folder_.string()));
}

std::optional<LoadedCheckpoint> CheckpointStore::load_best(const Warn& warn, IfDamaged damaged) const {
  auto latest = load_latest(warn, damaged);
  if (!latest || !latest->best_step || *latest->best_step == latest->step) return latest;
  try {
    return load(folder_ / folder_name(*latest->best_step, true));
  } catch (const Error& error) {
    if (damaged == IfDamaged::kRefuse) refuse(error);
    warn(fmt::format("{}; using the latest instead", error.what()));
    return latest;
  }
}

}  // namespace covnoise
