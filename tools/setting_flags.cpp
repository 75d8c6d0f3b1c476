#include "setting_flags.h"

#include <fmt/format.h>

namespace covnoise {
namespace {

struct SettingFlag {
  const char *name, *key, *hint;
};

constexpr SettingFlag kSettingFlags[] = {
    {"model", "model", " (covnoise models lists them)"},
    {"data", "data", " (covnoise data list lists them)"},
    {"regime", "regime", " (covnoise regimes lists them)"},
    {"epochs", "train.epochs", ""},
    {"batch", "train.batch", ""},
    {"lr", "train.lr", ""},
    {"seed", "seed", ""},
    {"threads", "run.threads", ""},
    {"device", "run.device", ""},
    {"precision", "train.precision", ""},
};

const SettingFlag& flag_named(const std::string& name) {
  for (const auto& flag : kSettingFlags) {
    if (flag.name == name) return flag;
  }
  throw std::logic_error("no flag --" + name);
}

}  // namespace

void add_setting_flags(CLI::App& command, SettingFlags& flags, const std::vector<std::string>& names) {
  for (const auto& name : names) {
    const auto& flag = flag_named(name);
    command.add_option("--" + name, flags[flag.key], fmt::format("short for --set {}=...{}", flag.key, flag.hint));
  }
}

std::vector<std::string> settings_of(const SettingFlags& flags) {
  std::vector<std::string> settings;
  for (const auto& [key, value] : flags) {
    if (value) settings.push_back(fmt::format("{}={}", key, *value));
  }
  return settings;
}

}  // namespace covnoise
