#include "covnoise/train/internal/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "covnoise/core/error.h"
#include "covnoise/train/defaults.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(RunFolder, DefaultNameTellsTheRunsApart) {
  const auto resolved = [](std::vector<std::string> settings) {
    settings.insert(settings.end(), {"model=resnet44", "data=cifar10", "regime=lb-diag", "seed=3"});
    auto config = load_config({}, settings);
    resolve_defaults(config);
    return config;
  };
  auto config = resolved({});
  EXPECT_EQ(default_run_name(config), "runs/resnet44-cifar10-lb-diag-s3");
  EXPECT_EQ(default_run_name(resolved({"train.batch=1024"})), "runs/resnet44-cifar10-lb-diag-b1024-s3");
  EXPECT_EQ(default_run_name(resolved({"train.lr=0.25", "train.epochs=200"})),
            "runs/resnet44-cifar10-lb-diag-lr0.25-e200-s3");
  config.data.name = "folder:/home/me/../my images/";
  EXPECT_EQ(default_run_name(config), "runs/resnet44-folder-home-me-..-my-images-lb-diag-s3");
  config.data.name = "folder:" + std::string(300, 'x');
  EXPECT_LT(default_run_name(config).filename().string().size(), 120U);
}

TEST(RunLock, OneProcessAtATime) {
  const testing::TemporaryFolder folder;
  const RunFolder run{folder / "a" / "run"};
  std::optional<RunLock> first;
  first.emplace(run);
  EXPECT_THAT([&] { RunLock second(run); }, ThrowsMessage<Error>(HasSubstr("is in use by another covnoise process")));
  first.reset();
  EXPECT_NO_THROW(RunLock third(run));
}

TEST(RunLock, UnwritableFolderIsOneLine) {
  EXPECT_THAT([] { RunLock lock(RunFolder{"/dev/null/run"}); }, ThrowsMessage<Error>(HasSubstr("/dev/null/run")));
}

}  // namespace
}  // namespace covnoise
