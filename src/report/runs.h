#pragma once
#include "covnoise/report/internal/collect.h"
#include "covnoise/train/internal/stored_run.h"

namespace covnoise::report {

/// Throws an Error if the metrics are damaged.
Run read_run(const StoredRun& stored);

/// Keeps every n-th step record of all runs, so that no run has more than kMostSteps; returns n. All runs
/// share n, so that runs that differ only in their seed keep the same steps.
std::int64_t thin_steps(std::vector<Run>& runs);

std::vector<Group> group_runs(const std::vector<Run>& runs);

/// Keys and values as TOML, but text without quotation marks: mnist instead of "mnist".
std::vector<std::pair<std::string, std::string>> shown_values(const Config& config);

}  // namespace covnoise::report
