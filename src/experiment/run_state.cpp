#include "experiment/run_state.h"

#include "covnoise/train/internal/run_folder.h"

#include <fmt/format.h>

namespace covnoise {

namespace {

void judge(Trained& run) {
  run.state = RunState::kOther;
  if (!difference(run.stored->config(), run.spec.config).empty()) return;
  run.summary = summarize(*run.stored);
  run.state = run.summary.diverged                                ? RunState::kDiverged
              : run.summary.epoch == run.spec.config.train.epochs ? RunState::kFinished
                                                                  : RunState::kUnfinished;
}

}  // namespace

Trained look_up(const RunSpec& spec, const std::filesystem::path& out) {
  Trained run{spec, out / "runs" / spec.name, RunState::kMissing, {}, {}};
  if (!std::filesystem::exists(RunFolder{run.folder}.config())) return run;
  run.stored.emplace(run.folder);
  judge(run);
  return run;
}

Trained from_record(const RunSpec& spec, const StoredRun& record) {
  Trained run{spec, {}, RunState::kMissing, {}, record, /*records_only=*/true};
  judge(run);
  return run;
}

std::string state_text(const Trained& run) {
  switch (run.state) {
    case RunState::kMissing:
      return "not run";
    case RunState::kUnfinished:
      return fmt::format("{} of {} epochs", run.summary.epoch, run.spec.config.train.epochs);
    case RunState::kFinished:
      return "finished";
    case RunState::kDiverged:
      return "diverged";
    default:
      return "of another configuration";
  }
}

}  // namespace covnoise
