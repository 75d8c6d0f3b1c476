#pragma once
#include "covnoise/experiment/runner.h"

namespace covnoise {

/// The number of runs and one line per run: its main settings, and its state below `out`.
std::string plan_text(const std::vector<RunSpec>& specs, const std::filesystem::path& out);

}  // namespace covnoise
