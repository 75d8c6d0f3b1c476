#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace covnoise {

/// In a run's folder: what trained it.
constexpr const char* kSoftwareFile = "software.json";

/// Versions of this program, its compiler and LibTorch, the processors, and the device's name as given.
nlohmann::ordered_json software_versions(const std::string& device);

}  // namespace covnoise
