#include "covnoise/train/internal/software.h"

#include "build_info.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/ops/device.h"
#include "covnoise/ops/internal/gpu_info.h"
#include "covnoise/train/internal/stored_run.h"
#include "train/files/checked_json.h"

#include <torch/version.h>

namespace covnoise {
namespace {

using Json = nlohmann::ordered_json;

/// The entries before `step`: what was trained after it is trained again.
Json resumed_before(const Json& software, std::int64_t step) {
  Json entries = Json::array();
  for (const auto& entry : software.value("resumed", Json::array())) {
    if (entry.is_object() && entry.value("step", step) < step) entries.push_back(entry);
  }
  return entries;
}

}  // namespace

Json software_versions(const std::string& device) {
  Json json{{"covnoise", COVNOISE_VERSION},        {"commit", build_commit()},  {"build", COVNOISE_BUILD_TYPE},
            {"compiler", COVNOISE_COMPILER},       {"libtorch", TORCH_VERSION}, {"device", device},
            {"processors", available_processors()}};
  if (const auto gpu = gpu_info(device_of(device))) {
    json["gpu"] = gpu->name;
    json["cuda"] = gpu->cuda;
    if (gpu->kernels != GpuKernels::kAll) json["kernels"] = gpu->describe_kernels();
  }
  return json;
}

void record_software(const RunFolder& folder, const std::string& device, std::optional<std::int64_t> resumed_after) {
  const Json here = software_versions(device);
  Json first = resumed_after ? kept_json(folder.software()) : Json::object();
  Json resumed = resumed_after ? resumed_before(first, *resumed_after) : Json::array();
  first.erase("resumed");
  if (resumed_after) {
    const Json last = resumed.empty() ? first : resumed.back().value("software", Json::object());
    if (last != here) resumed.push_back({{"step", *resumed_after}, {"software", here}});
  } else {
    first = here;
  }
  if (!resumed.empty()) first["resumed"] = std::move(resumed);
  add_checksum(first);
  write_file_synced(folder.software(), first.dump(2) + "\n");
}

}  // namespace covnoise
