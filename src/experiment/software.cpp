#include "experiment/software.h"

#include "build_info.h"
#include "covnoise/core/threads.h"

#include <torch/version.h>

namespace covnoise {

nlohmann::ordered_json software_versions(const std::string& device) {
  return {{"covnoise", COVNOISE_VERSION},
          {"build", COVNOISE_BUILD_TYPE},
          {"compiler", COVNOISE_COMPILER},
          {"libtorch", TORCH_VERSION},
          {"device", device},
          {"processors", available_processors()}};
}

}  // namespace covnoise
