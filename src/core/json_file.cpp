#include "core/json_file.h"

#include "covnoise/core/file.h"

namespace covnoise {

void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& json) {
  write_file_synced(path, json.dump(2) + "\n");
}

}  // namespace covnoise
