// Every single flipped bit in a file of a run is refused, or leaves what is read unchanged. (Checkpoints:
// checkpoint_test.cpp.)
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/software.h"
#include "covnoise/train/internal/stored_run.h"
#include "support/temporary_folder.h"
#include "train/files/snapshot.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// In place: a file that is cut and written again is synced by some file systems, which takes its time.
void replace_byte(const fs::path& path, std::size_t position, char byte) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(position)).put(byte);
}

class FlippedBits : public ::testing::Test {
 protected:
  /// `read` returns the content as text.
  void expect_noticed(const fs::path& path, const std::function<std::string()>& read) {
    const std::string good = read_file(path), expected = read();
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
      replace_byte(path, bit / 8, static_cast<char>(good[bit / 8] ^ (1 << bit % 8)));
      try {
        ASSERT_EQ(read(), expected) << "bit " << bit % 8 << " of byte " << bit / 8;
      } catch (const Error&) {
        ++refused;
      }
      replace_byte(path, bit / 8, good[bit / 8]);
    }
    EXPECT_GT(refused, 7 * good.size());
  }
  static void no_warning(const std::string& text) { throw Error(text); }

  testing::TemporaryFolder folder_;
  RunFolder run_{folder_.path()};
};

TEST_F(FlippedBits, OfMetrics) {
  {
    MetricsWriter metrics(folder_.path(), {});
    metrics.write({{"kind", "step"}, {"step", 3}, {"train_loss", 2.3025850929940455}, {"lr", 1e-7}, {"batch", 64}});
    metrics.write({{"kind", "epoch"}, {"step", 3}, {"epoch", 1}, {"test_accuracy", 0.5}});
    metrics.write({{"kind", "warning"}, {"step", 3}, {"epoch", 1}, {"message", "above guessing"}});
  }
  expect_noticed(run_.metrics(), [&] {
    std::string text;
    for (const auto& record : read_metrics(folder_.path())) text += record.dump();
    return text;
  });
}

TEST_F(FlippedBits, OfTheConfiguration) {
  auto config = load_config({}, {"model=mlp", "regime=lb-diag"});
  resolve_defaults(config);
  write_file_synced(run_.config(), to_checked_toml(config));
  expect_noticed(run_.config(), [&] { return to_toml(read_config(run_.config())); });
}

TEST_F(FlippedBits, OfTheSoftware) {
  record_software(run_, "cpu", {});
  expect_noticed(run_.software(), [&] { return kept_json(run_.software()).dump(); });
}

TEST_F(FlippedBits, OfASnapshot) {
  const auto path = folder_ / "step-00000001.safetensors";
  write_snapshot(path, {{"weight", at::arange(6, at::kFloat).reshape({2, 3})}, {"steps", at::full({}, 7, at::kLong)}});
  expect_noticed(path, [&] { return encode_safetensors({read_snapshot(path, no_warning), {}}); });
}

TEST_F(FlippedBits, FilesOfEarlierVersionsAreRead) {
  const auto path = folder_ / "step-00000001.safetensors";
  write_safetensors(path, {{{"weight", at::ones({2})}}, {}});
  EXPECT_EQ(read_snapshot(path, [](const std::string&) {}).size(), 1U);
  EXPECT_THAT([&] { read_snapshot(path, no_warning); }, ThrowsMessage<Error>(HasSubstr("has no checksum")));
  write_file_synced(run_.metrics(), "{\"kind\":\"step\",\"step\":1,\"lr\":0.1}\n");
  EXPECT_EQ(read_metrics(folder_.path()).at(0).at("lr"), 0.1);
  write_file_synced(run_.software(), R"({"covnoise": "0.1.0", "cuda": "12.8"})");
  EXPECT_EQ(kept_json(run_.software()).at("cuda"), "12.8");
  write_file_synced(run_.config(), "train.lr = 0.3\n");
  EXPECT_EQ(read_config(run_.config()).train.lr, 0.3);
}

}  // namespace
}  // namespace covnoise
