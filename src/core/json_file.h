#pragma once
#include <nlohmann/json.hpp>

#include <filesystem>

namespace covnoise {

/// Indented, ended by a line feed, all or nothing. Numbers that are not finite become null.
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json);

}  // namespace covnoise
