#pragma once
#include "covnoise/experiment/runner.h"

namespace covnoise {

/// How many runs, and a line for each: its main settings, and what there is of it below `out`.
std::string plan_text(const std::vector<RunSpec>& specs, const std::filesystem::path& out);

}  // namespace covnoise
