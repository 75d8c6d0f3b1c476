#pragma once
#include "covnoise/train/internal/stored_run.h"

#include <exception>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace covnoise {

/// Calls `read`; an exception becomes a line of `problems`.
template <typename Read>
void attempt(std::vector<std::string>& problems, Read read) {
  try {
    read();
  } catch (const std::exception& error) {
    problems.emplace_back(error.what());
  }
}

/// Looks for runs at and below folders, down to a sensible depth. Links are followed; a folder is entered once, so they
/// may form circles. Hidden folders and checkpoints are not entered.
class RunSearch {
 public:
  /// Called with each folder and the regular files in it.
  using Visit =
      std::function<void(const std::filesystem::path& folder, const std::vector<std::filesystem::path>& files)>;
  explicit RunSearch(Visit visit = [](const auto&, const auto&) {}) : visit_(std::move(visit)) {}

  void enter(const std::filesystem::path& root) { enter(root, 0); }

  const std::vector<std::filesystem::path>& folders() const { return folders_; }  ///< config.toml and metrics.jsonl
  const std::vector<std::filesystem::path>& record_files() const { return record_files_; }
  const std::vector<std::string>& problems() const { return problems_; }  ///< folders that cannot be read

  /// The runs found, by path, each once: a record is left out where the folder of its run or another record of it was
  /// found. What cannot be read becomes a line of `problems`.
  std::vector<StoredRun> runs(std::vector<std::string>& problems) const;

 private:
  void enter(const std::filesystem::path& folder, int depth);

  Visit visit_;
  std::set<std::filesystem::path> seen_;
  std::vector<std::filesystem::path> folders_, record_files_;
  std::vector<std::string> problems_;
};

}  // namespace covnoise
