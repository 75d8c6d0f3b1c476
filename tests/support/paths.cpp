#include "support/paths.h"

namespace covnoise::testing {

std::string program() { return COVNOISE_PROGRAM; }
std::filesystem::path source_dir() { return COVNOISE_SOURCE_DIR; }

}  // namespace covnoise::testing
