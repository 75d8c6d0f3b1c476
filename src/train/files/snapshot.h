#pragma once
#include "covnoise/core/safetensors.h"

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// A network kept for analyses: a safetensors file whose metadata has `sha256`, the checksum of the same file without
/// metadata.
void write_snapshot(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors);

/// Reads and verifies one; damage is an Error. `warn` is told that one of an earlier version has no checksum.
std::vector<NamedTensor> read_snapshot(const std::filesystem::path& path,
                                       const std::function<void(const std::string&)>& warn);

}  // namespace covnoise
