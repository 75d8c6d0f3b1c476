#pragma once
#include "covnoise/train/internal/run_search.h"

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise::report {

struct Found {
  std::vector<StoredRun> runs;
  std::vector<std::filesystem::path> figure_folders;
  std::vector<std::string> problems;  ///< what could not be read
};

/// The runs and the folders with figures at and below `roots`, sorted, each once. See collect().
Found search(const std::vector<std::filesystem::path>& roots);

}  // namespace covnoise::report
