#include "covnoise/report/internal/page.h"

#include "report/report_folders.h"
#include "support/paths.h"
#include "support/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace covnoise::report {
namespace {

namespace fs = std::filesystem;
using covnoise::testing::make_run;
using covnoise::testing::Process;
using covnoise::testing::ProgramFixture;
using covnoise::testing::run_config;
using ::testing::HasSubstr;
using ::testing::Not;

/// The first of these programs on the PATH, or nothing.
std::string program(const std::vector<std::string>& names) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const auto& name : names) {
      if (fs::exists(fs::path(folder) / name)) return (fs::path(folder) / name).string();
    }
  }
  return "";
}

constexpr const char* kWarning =
    R"({"kind":"warning","step":20,"epoch":2,"about":"loss","message":"the loss <b> is above that of guessing"})"
    "\n";

class ReportPage : public ProgramFixture {
 protected:
  ReportPage() : ProgramFixture({"report"}) {}

  /// What page_check.mjs expects. The name of the data would end a script element if it were not escaped.
  void make_folders() {
    const auto make = [&](const std::string& regime, std::uint64_t seed, std::int64_t epochs, double accuracy) {
      Config config = run_config(regime, seed);
      config.data.name = "folder:</script><img src=http://127.0.0.1:9/x onerror=alert(1)>";
      make_run(folder_ / "runs" / fmt::format("{}-{}", regime, seed), config, epochs, accuracy,
               regime == "sb" && seed == 2 ? kWarning : "");
    };
    for (const int seed : {0, 1, 2}) make("sb", static_cast<std::uint64_t>(seed), 3, 0.9 + 0.01 * seed);
    make("lb", 0, 3, 0.8);
    make("lb", 1, 1, 0.8);
    const auto software = [&](const std::string& run, const std::string& commit, const std::string& more) {
      write_file_synced(folder_ / "runs" / run / "software.json",
                        fmt::format(R"({{"covnoise":"0.2.0","commit":"{}","build":"Release","compiler":"GNU 12.2.0",)"
                                    R"("libtorch":"2.11.0","device":"cuda","processors":16,"gpu":"NVIDIA <i>","cuda":)"
                                    R"("12.8"{}}})",
                                    commit, more));
    };
    for (const char* run : {"sb-0", "sb-1", "sb-2"}) software(run, "0123456789ab-dirty", "");
    software("lb-0", "aaaaaaaaaaaa",
             R"(,"resumed":[{"step":5,"software":{"covnoise":"0.2.1","commit":"bbbbbbbbbbbb","libtorch":"2.12.0"}}])");
    write_file_synced(folder_ / "runs/figure.svg",
                      R"(<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><title>A figure</title>)"
                      R"(<image href="http://127.0.0.1:9/y.png"/><rect width="9" height="9"/></svg>)");
    write_file_synced(folder_ / "runs/figure.csv", "a\n1\n");
    write_file_synced(
        folder_ / "runs/table2.json",
        R"({"item":"table2","title":"Table 2 <b>","claim":"c","tables":[{"title":"","header":["network"],)"
        R"("rows":[["MNIST, MLP </td>"]]}],"notes":["A note"]})");
  }
};

TEST_F(ReportPage, DataNeverHoldsMarkup) {
  make_folders();
  write_file_synced(folder_ / "runs/bytes.csv", "\xff\xfe not UTF-8");
  const std::string json = to_json(collect({folder_.path()}));
  EXPECT_THAT(json, Not(HasSubstr("<")));
  const auto data = nlohmann::json::parse(json);
  EXPECT_THAT(data["groups"][0]["data"].get<std::string>(), HasSubstr("</script>"));
  EXPECT_EQ(data["groups"][0]["label"], "sb");
  EXPECT_EQ(data["runs"][0]["config"].size(), data["keys"].size());
}

TEST_F(ReportPage, BadInputIsOneLineAndNoFile) {
  make_folders();
  if (!page_available()) {
    expect_one_line({(folder_ / "runs").string(), "--out", (folder_ / "r.html").string()}, "no report page");
    GTEST_SKIP() << "this build has no report page (npm)";
  }
  create_folders(folder_ / "empty");
  const std::string runs = (folder_ / "runs").string(), out = (folder_ / "out.html").string();
  expect_one_line({(folder_ / "empty").string(), "--out", out}, "nothing to report in");
  expect_one_line({runs, (folder_ / "none").string(), "--out", out}, "there is no folder");
  expect_one_line({runs}, "--out");
  expect_one_line({runs, "--out", (folder_ / "empty").string()}, "cannot write");
  expect_one_line({runs, "--out", (folder_ / "runs/figure.csv/x.html").string()}, "cannot create folder");
  EXPECT_FALSE(fs::exists(out));
  EXPECT_TRUE(fs::is_empty(folder_ / "empty"));
}

TEST_F(ReportPage, WorksInABrowser) {
  const std::string node = program({"node"});
  const std::string browser = program({"chromium-headless-shell", "chromium", "google-chrome"});
  if (!page_available()) GTEST_SKIP() << "this build has no report page (npm)";
  if (node.empty() || browser.empty()) GTEST_SKIP() << "no node or no Chromium; script/bootstrap installs them";
  make_folders();
  const std::string page = (folder_ / "a page.html").string();
  const auto [code, output] = run({(folder_ / "runs").string(), "--out", page});
  ASSERT_EQ(code, 0) << output;
  EXPECT_THAT(output, HasSubstr("5 runs in 2 groups, 1 figure, "));
  Process check({node, (testing::source_dir() / "tests/report/page_check.mjs").string(), browser, page},
                folder_ / "check");
  EXPECT_EQ(check.wait(), 0) << check.output();
}

}  // namespace
}  // namespace covnoise::report
