#pragma once
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/internal/paper.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/run_records.h"
#include "experiment/paper/result.h"
#include "support/paths.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace covnoise::paper {

/// Items in a folder of their own, with runs that were trained or that look as if they had been.
class PaperTest : public ::testing::Test {
 protected:
  Options options(bool quick) {
    Options options;
    options.runner.out = folder_.path() / "paper";
    options.runner.program = testing::program();
    options.runner.jobs = 2;
    options.quick = quick;
    if (quick) {
      options.scale = 0.125;
      options.seeds = {0};
    }
    return options;
  }
  std::filesystem::path results() { return folder_.path() / "paper" / "results"; }
  std::map<std::string, StoredRun> records(const std::string& row) {
    std::map<std::string, StoredRun> records;
    for (auto& run : read_records(results() / "runs" / (row + ".jsonl.gz"))) records.emplace(run.name(), run);
    return records;
  }
  Json json(const std::string& item) { return Json::parse(read_file(results() / item / (item + ".json"))); }

  /// A run as the trainer would have left it, without its checkpoints.
  void pretend(const RunSpec& spec, std::int64_t epochs, double train, double test, const std::string& more = "") {
    const RunFolder run{folder_.path() / "paper" / "runs" / spec.name};
    create_folders(run.root);
    write_file_synced(run.config(), to_toml(spec.config));
    write_file_synced(run.metrics(), fmt::format(R"({{"kind":"epoch","step":1,"epoch":{},"train_eval_accuracy":{},)"
                                                 R"("test_accuracy":{}}})"
                                                 "\n{}",
                                                 epochs, train, test, more));
  }
  testing::TemporaryFolder folder_;
};

}  // namespace covnoise::paper
