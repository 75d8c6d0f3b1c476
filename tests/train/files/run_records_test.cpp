#include "covnoise/train/internal/run_records.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/gzip.h"
#include "covnoise/core/internal/json.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/run_search.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;
using Json = nlohmann::ordered_json;

class RunRecords : public ::testing::Test {
 protected:
  /// A folder with one step and one epoch; `trained`: as training leaves it.
  StoredRun make(const std::string& name, std::uint64_t seed, bool trained = true) {
    const RunFolder run{folder_ / name};
    create_folders(run.root);
    write_file_synced(run.config(), to_toml(load_config({}, {"train.lr=0.3", "seed=" + std::to_string(seed)})));
    write_file_synced(run.metrics(), R"({"kind":"step","step":5,"train_loss":1.5})"
                                     "\n"
                                     R"({"kind":"epoch","step":10,"epoch":1,"test_accuracy":0.1})"
                                     "\n");
    if (trained) write_file_synced(run.metrics_csv(), "kind\n");
    return StoredRun(run.root);
  }
  std::vector<std::string> found() {
    RunSearch search;
    search.enter(folder_.path());
    std::vector<std::string> paths, problems;
    for (const auto& run : search.runs(problems)) paths.push_back(run.path().lexically_relative(folder_.path()));
    EXPECT_THAT(problems, IsEmpty());
    return paths;
  }

  testing::TemporaryFolder folder_;
  fs::path file_ = folder_ / "row.jsonl.gz";
};

TEST_F(RunRecords, KeepEverythingExceptSingleSteps) {
  const auto run = make("sb-s3", 3);
  write_file_synced(folder_ / "sb-s3/software.json", R"({"libtorch": "2.11.0"})");
  write_file_synced(folder_ / "sb-s3/other.json", "{}");
  update_records(file_, {run.record({"software", "absent"})});
  const auto records = read_records(file_);
  ASSERT_EQ(records.size(), 1u);
  const auto& record = records.front();
  EXPECT_EQ(record.name(), "sb-s3");
  EXPECT_EQ(record.path(), file_.string() + "#sb-s3");
  EXPECT_TRUE(record.is_record());
  EXPECT_FALSE(run.is_record());
  EXPECT_EQ(to_toml(record.config()), to_toml(run.config()));
  EXPECT_THAT(record.metrics(), ElementsAre(run.metrics().back()));
  EXPECT_EQ(record.document("software"), Json({{"libtorch", "2.11.0"}}));
  EXPECT_TRUE(record.document("other").empty());
  EXPECT_EQ(summarize(record).test_accuracy, 0.1);
}

/// Commands that train different regimes of a row at the same time.
TEST_F(RunRecords, OfSeveralWritersAreAllKept) {
  constexpr int kWriters = 4, kEach = 10;
  auto record = make("run", 0).record({});
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([this, writer, own = record]() mutable {
      for (int i = 0; i < kEach; ++i) {
        own["run"] = fmt::format("run-{}-{}", writer, i);
        update_records(file_, {own});
      }
    });
  }
  for (auto& writer : writers) writer.join();
  EXPECT_EQ(read_records(file_).size(), kWriters * kEach);
}

TEST_F(RunRecords, AnUpdateReplacesByNameAndLeavesTheOthers) {
  const auto a = make("a", 0).record({}), b = make("b", 1).record({});
  update_records(file_, {b});
  update_records(file_, {a});
  update_records(folder_ / "at-once.jsonl.gz", {a, b});
  EXPECT_EQ(read_file(file_), read_file(folder_ / "at-once.jsonl.gz"));
  const auto before = fs::last_write_time(file_);
  fs::last_write_time(file_, before - std::chrono::hours(1));
  update_records(file_, {a});
  EXPECT_LT(fs::last_write_time(file_), before) << "nothing changed, so nothing is written";
  auto changed = a;
  changed["documents"]["software"] = {{"covnoise", "9"}};
  update_records(file_, {changed});
  const auto records = read_records(file_);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].document("software"), Json({{"covnoise", "9"}}));
  EXPECT_EQ(records[1].record({}), b);
}

TEST_F(RunRecords, DamageIsOneLineWithFileAndLine) {
  const std::string good = make("a", 0).record({}).dump() + "\n";
  auto no_metrics = Json::parse(good), bad_config = no_metrics, bad_metrics = no_metrics;
  no_metrics.erase("metrics");
  bad_config["config"] = "modle = 1";
  bad_metrics["metrics"][0].erase("kind");
  for (const auto& line :
       {std::string("{"), std::string("[]"), no_metrics.dump(), bad_config.dump(), bad_metrics.dump()}) {
    write_file_synced(file_, gzip(good + line));
    EXPECT_THAT([&] { read_records(file_); }, ThrowsMessage<Error>(HasSubstr(file_.string() + ":2: "))) << line;
    EXPECT_THROW(update_records(file_, {}), Error) << "would lose the rest";
  }
  write_file_synced(file_, "no gzip");
  EXPECT_THAT([&] { read_records(file_); }, ThrowsMessage<Error>(HasSubstr(file_.string() + ": damaged")));
  EXPECT_THAT(read_records(folder_ / "none.jsonl.gz"), IsEmpty());
}

TEST_F(RunRecords, MetricsOfAnotherTypeAreRefused) {
  for (const char* bad : {R"("epoch":"1")", R"("epoch":-1)", R"("epoch":1e300)", R"("epoch":18446744073709551615)",
                          R"("message":1)", R"("seconds":null)"}) {
    const auto record = parse_json(fmt::format(R"({{"kind":"epoch","step":1,{}}})", bad));
    EXPECT_FALSE(is_metrics_record(record)) << bad;
  }
  EXPECT_TRUE(is_metrics_record({{"kind", "epoch"}, {"step", 1}, {"epoch", std::int64_t{1}}, {"seconds", 1.5}}));
}

TEST_F(RunRecords, ASearchFindsARunOnce) {
  update_records(file_, {make("runs/a", 0).record({}), make("gone", 1).record({}), make("old/b", 2, false).record({})});
  remove_tree(folder_ / "gone");
  EXPECT_THAT(found(), ElementsAre("row.jsonl.gz#b", "row.jsonl.gz#gone", "runs/a"));
  make("runs/repeated", 0);  // another training of the same configuration is another run
  make("old/c", 3, false);
  EXPECT_THAT(found(), ElementsAre("old/c", "row.jsonl.gz#b", "row.jsonl.gz#gone", "runs/a", "runs/repeated"));
}

TEST_F(RunRecords, WhatOnlyConcernsHowARunWasExecutedIsNotItsIdentity) {
  const auto run = make("a", 0);
  auto other = run.config();
  other.run.device = "cuda";
  other.train.eval_every = 7;
  write_file_synced(folder_ / "a/config.toml", to_toml(other));
  EXPECT_EQ(StoredRun(folder_ / "a").identity(), run.identity());
  EXPECT_NE(make("b", 1).identity(), run.identity());
}

TEST_F(RunRecords, FindRunsSaysWhatItCannotRead) {
  make("good", 0);
  make("bad", 1);
  write_file_synced(folder_ / "bad/config.toml", "modle = 1\n");
  write_file_synced(file_, "no gzip");
  std::vector<std::string> problems;
  const auto runs = find_runs(folder_.path(), [&](const std::string& problem) { problems.push_back(problem); });
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].path, folder_ / "good");
  EXPECT_THAT(problems, ElementsAre(HasSubstr("row.jsonl.gz"), HasSubstr("bad/config.toml")));
}

}  // namespace
}  // namespace covnoise
