#pragma once
#include <CLI/CLI.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// Options of a command that are short for --set, by key: "--lr 0.2" is "train.lr=0.2".
using SettingFlags = std::map<std::string, std::optional<std::string>>;

/// Adds those of these names ("lr"). `flags` must outlive the command.
void add_setting_flags(CLI::App& command, SettingFlags& flags, const std::vector<std::string>& names);

/// The given ones as settings: "train.lr=0.2".
std::vector<std::string> settings_of(const SettingFlags& flags);

}  // namespace covnoise
