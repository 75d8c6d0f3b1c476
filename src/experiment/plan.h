#pragma once
#include "experiment/run_state.h"

namespace covnoise {

/// The number of runs and one line per run: its main settings, and its state.
std::string plan_text(const std::vector<Trained>& runs);

}  // namespace covnoise
