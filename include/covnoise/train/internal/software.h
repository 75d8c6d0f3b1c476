#pragma once
#include "covnoise/train/internal/run_folder.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace covnoise {

/// The name of the document (StoredRun::document).
constexpr const char* kSoftware = "software";

/// What computes here: version and commit of this program, its build, LibTorch, the device (as given by its name; of a
/// GPU also its model and the version of CUDA) and the number of processors.
nlohmann::ordered_json software_versions(const std::string& device);

/// Writes the run's software.json: the software that trains it from the beginning. Where other software resumes it
/// after a step, the list `resumed` gets an entry with the step and that software. The last key is a checksum.
void record_software(const RunFolder& folder, const std::string& device, std::optional<std::int64_t> resumed_after);

}  // namespace covnoise
