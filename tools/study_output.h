#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// Ends a command that made a study: its table, an empty line, the paths of what was written.
void print_study(const std::string& table, const std::vector<std::filesystem::path>& paths);

}  // namespace covnoise
