#include "experiment/run_state.h"

#include "covnoise/train/internal/run_folder.h"

#include <fmt/format.h>

namespace covnoise {

Trained look_into(const std::filesystem::path& path, const RunSpec& spec) {
  Trained run{spec, path, RunState::kMissing, {}};
  const RunFolder folder{path};
  if (!std::filesystem::exists(folder.config())) return run;
  run.state = RunState::kOther;
  if (!difference(read_config(folder.config()), spec.config).empty()) return run;
  run.summary = summarize_run(path);
  run.state = run.summary.diverged                            ? RunState::kDiverged
              : run.summary.epoch == spec.config.train.epochs ? RunState::kFinished
                                                              : RunState::kUnfinished;
  return run;
}

Trained look_up(const RunSpec& spec, const std::filesystem::path& out) {
  return look_into(out / "runs" / spec.name, spec);
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
