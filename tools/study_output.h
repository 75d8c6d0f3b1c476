#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// Said where a PNG is missing.
constexpr char kNoPng[] = "(no PNG: this build has no cairo; install libcairo2-dev and build again)";

/// The output of a study: its table, an empty line, the paths of the files written.
void print_study(const std::string& table, const std::vector<std::filesystem::path>& paths);

}  // namespace covnoise
