#pragma once
#include "covnoise/report/internal/collect.h"
#include "covnoise/train/internal/stored_run.h"

namespace covnoise::report {

/// An Error where the metrics are damaged.
Run read_run(const StoredRun& stored);

/// Keeps every n-th step record of all runs, so that none has more than kMostSteps; returns n. One n for all: the
/// points of runs that only differ in their seed stay at the same steps.
std::int64_t thin_steps(std::vector<Run>& runs);

std::vector<Group> group_runs(const std::vector<Run>& runs);

/// "mnist" and not "\"mnist\""; other values as TOML writes them.
std::vector<std::pair<std::string, std::string>> shown_values(const Config& config);

}  // namespace covnoise::report
