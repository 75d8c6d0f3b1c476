#include "covnoise/train/internal/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/run_folder.h"
#include "covnoise/train/internal/tensorboard.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::ThrowsMessage;

struct Event {
  std::int64_t step = 0;
  std::string version;
  std::vector<std::pair<std::string, float>> scalars;
};

/// Reads what tensorboard.cpp writes, on its own: framing with CRCs, then the fields of Event, Summary and Value.
class EventReader {
 public:
  explicit EventReader(std::string bytes) : bytes_(std::move(bytes)) {}

  std::vector<Event> read() {
    std::vector<Event> events;
    while (position_ < bytes_.size()) events.push_back(event(record()));
    return events;
  }

  /// Field of google.protobuf.Value and its content, by key.
  std::map<std::string, std::pair<int, std::string>> hparams() {
    record();  // the version
    const auto only = [](const std::string& data, int field) {
      for (const auto& [number, content] : fields(data))
        if (number == field) return content;
      return std::string();
    };
    const std::string value = only(only(record(), 5), 1), plugin = only(only(value, 9), 1);
    EXPECT_EQ(only(value, 1), "_hparams_/session_start_info");
    EXPECT_EQ(only(plugin, 1), "hparams");
    std::map<std::string, std::pair<int, std::string>> values;
    for (const auto& [field, entry] : fields(only(only(plugin, 2), 3)))
      if (field == 1) values[only(entry, 1)] = fields(only(entry, 2)).at(0);
    return values;
  }

 private:
  template <typename T>
  static T number(const std::string& bytes, std::size_t at) {
    T value;
    std::memcpy(&value, bytes.substr(at, sizeof value).data(), sizeof value);
    return value;
  }
  static std::uint32_t unmasked(std::uint32_t masked) {
    const std::uint32_t rotated = masked - 0xa282ead8U;
    return (rotated >> 17) | (rotated << 15);
  }
  std::string record() {
    const auto length = number<std::uint64_t>(bytes_, position_);
    EXPECT_EQ(unmasked(number<std::uint32_t>(bytes_, position_ + 8)), crc32c(bytes_.substr(position_, 8)));
    std::string data = bytes_.substr(position_ + 12, length);
    EXPECT_EQ(data.size(), length);
    EXPECT_EQ(unmasked(number<std::uint32_t>(bytes_, position_ + 12 + length)), crc32c(data));
    position_ += 16 + length;
    return data;
  }
  static std::uint64_t varint(const std::string& data, std::size_t& at) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(data.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  /// Field number and content (numbers as their bytes) of each field.
  static std::vector<std::pair<int, std::string>> fields(const std::string& data) {
    std::vector<std::pair<int, std::string>> result;
    for (std::size_t at = 0; at < data.size();) {
      const auto key = varint(data, at);
      std::size_t length = (key & 7) == 1 ? 8 : 4;
      if ((key & 7) == 2) length = varint(data, at);
      const std::size_t start = at;
      if ((key & 7) == 0) {
        varint(data, at);
      } else {
        at += length;
      }
      result.emplace_back(static_cast<int>(key >> 3), data.substr(start, at - start));
    }
    return result;
  }
  static Event event(const std::string& data) {
    Event event;
    for (const auto& [field, content] : fields(data)) {
      std::size_t at = 0;
      if (field == 2) event.step = static_cast<std::int64_t>(varint(content, at));
      if (field == 3) event.version = content;
      if (field != 5) continue;
      for (const auto& value : fields(content)) {
        const auto parts = fields(value.second);
        event.scalars.emplace_back(parts.at(0).second, number<float>(parts.at(1).second, 0));
      }
    }
    return event;
  }
  std::string bytes_;
  std::size_t position_ = 0;
};

std::string bytes_of(double value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

Json step_record(std::int64_t step) {
  return {{"kind", "step"}, {"step", step}, {"epoch", step / 10}, {"train_loss", 1.0 / (1 + step)}, {"lr", 0.1}};
}

Json epoch_record(std::int64_t step) {
  return {{"kind", "epoch"}, {"step", step}, {"epoch", step / 10}, {"test_accuracy", 0.5}, {"seconds", 2.0 * step}};
}

/// A line with its checksum as the last key.
std::string checked(const std::string& object) {
  return fmt::format("{},\"crc\":\"{:08x}\"}}\n", object.substr(0, object.size() - 1), crc32c(object));
}

class MetricsTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(run_.metrics(), std::ios::app) << text; }
  std::string jsonl() { return read_file(run_.metrics()); }

  testing::TemporaryFolder folder_;
  RunFolder run_{folder_.path()};
};

// RFC 3720, appendix B.4, and the usual check value.
TEST(Crc32c, MatchesTheStandardsExamples) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

/// TensorBoard's dashboard of hyperparameters reads them from the metadata of one value.
TEST_F(MetricsTest, TensorBoardGetsTheConfiguration) {
  write_file_synced(run_.config(), to_toml(load_config({}, {"train.lr=0.25", "train.nesterov=true"})));
  MetricsWriter metrics(folder_.path(), {});
  metrics.flush_synced();
  const auto values = EventReader(read_file(run_.events())).hparams();
  EXPECT_EQ(values.at("train.lr"), (std::pair<int, std::string>(2, bytes_of(0.25))));
  EXPECT_EQ(values.at("train.batch"), (std::pair<int, std::string>(2, bytes_of(128.0))));
  EXPECT_EQ(values.at("train.nesterov"), (std::pair<int, std::string>(4, "\1")));
  EXPECT_EQ(values.at("data.name"), (std::pair<int, std::string>(3, "glyphs")));
  EXPECT_EQ(values.at("train.milestones"), (std::pair<int, std::string>(3, "[0.5, 0.75]")));
  EXPECT_EQ(values.size(), config_keys().size());
}

TEST_F(MetricsTest, WritesOneObjectALineInOrder) {
  MetricsWriter metrics(folder_.path(), {});
  metrics.write({{"kind", "step"}, {"step", 3}, {"train_loss", std::nan("")}, {"lr", 0.1}});
  metrics.write(epoch_record(10));
  metrics.flush_synced();
  EXPECT_EQ(jsonl(), checked(R"({"kind":"step","step":3,"train_loss":null,"lr":0.1})") +
                         checked(R"({"kind":"epoch","step":10,"epoch":1,"test_accuracy":0.5,"seconds":20.0})"));
  EXPECT_THAT(read_metrics(folder_.path()),
              ElementsAre(Json::parse(R"({"kind":"step","step":3,"train_loss":null,"lr":0.1})"), epoch_record(10)));
  EXPECT_EQ(metrics.records(), 2);
}

TEST_F(MetricsTest, CsvHasFixedColumns) {
  MetricsWriter metrics(folder_.path(), {});
  metrics.write({{"kind", "step"},
                 {"step", 3},
                 {"train_loss", std::numeric_limits<double>::infinity()},
                 {"lr", 0.1},
                 {"other", 1}});
  metrics.write(epoch_record(10));
  EXPECT_EQ(
      read_file(run_.metrics_csv()),
      "kind,step,epoch,train_loss,train_accuracy,test_loss,test_accuracy,val_loss,val_accuracy,train_eval_loss,"
      "train_eval_accuracy,lr,batch,images_per_s,seconds,grad_norm,noise_norm,fisher_trace,noise_scale,temperature,"
      "noise_temperature,weight_norm,clip_factor,noise_clip_factor,penalty,penalty_norm\n"
      "step,3,,,,,,,,,,0.1,,,,,,,,,,,,,,\n"
      "epoch,10,1,,,,0.5,,,,,,,,20.0,,,,,,,,,,,\n");
}

TEST_F(MetricsTest, EventFileReadsBack) {
  MetricsWriter metrics(folder_.path(), {});
  metrics.write(step_record(300));
  metrics.write({{"kind", "epoch"}, {"step", 1LL << 40}, {"test_loss", std::nan("")}, {"test_accuracy", 0.25}});
  const auto events = EventReader(read_file(run_.events())).read();
  ASSERT_THAT(events, SizeIs(3));
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 300);
  EXPECT_THAT(events[1].scalars, ElementsAre(std::pair("step/epoch", 30.0F), std::pair("step/train_loss", 1.0F / 301),
                                             std::pair("step/lr", 0.1F)));
  EXPECT_EQ(events[2].step, 1LL << 40);
  EXPECT_THAT(events[2].scalars, ElementsAre(std::pair("epoch/test_accuracy", 0.25F)));
}

TEST_F(MetricsTest, ResumeCutsLaterAndTornLines) {
  std::string expected;
  {
    MetricsWriter metrics(folder_.path(), {});
    for (const std::int64_t step : {5, 10}) metrics.write(step_record(step));
    metrics.write(epoch_record(10));
    expected = jsonl();
    metrics.write(step_record(15));
  }
  append(R"({"kind":"step","st)");
  MetricsWriter metrics(folder_.path(), 10);
  EXPECT_EQ(jsonl(), expected);
  metrics.write(step_record(15));
  EXPECT_EQ(jsonl(), expected + checked(step_record(15).dump()));
  EXPECT_EQ(metrics.records(), 4);
  EXPECT_EQ(EventReader(read_file(run_.events())).read().size(), 5U);
  const auto csv = read_file(run_.metrics_csv());
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
}

TEST_F(MetricsTest, ResumeCutsGarbageAfterTheCheckpoint) {
  { MetricsWriter(folder_.path(), {}).write(step_record(5)); }
  append(std::string(10, '\0') + "\n{\"kind\":\"step\",\"step\":15}\n");
  const MetricsWriter metrics(folder_.path(), 10);
  EXPECT_EQ(jsonl(), checked(step_record(5).dump()));
}

TEST_F(MetricsTest, DamageBeforeTheCheckpointIsAnError) {
  { MetricsWriter(folder_.path(), {}).write(step_record(5)); }
  append("garbage\n" + step_record(8).dump() + "\n");
  EXPECT_THAT([&] { MetricsWriter(folder_.path(), 10); },
              ThrowsMessage<Error>(HasSubstr("metrics.jsonl:2: not a metrics record")));
}

TEST_F(MetricsTest, DamageAfterTheCheckpointMattersOnlyToReaders) {
  { MetricsWriter(folder_.path(), {}).write(step_record(5)); }
  append("garbage\n");
  EXPECT_THAT(read_metrics(folder_.path(), 5), SizeIs(1));
  EXPECT_THAT([&] { read_metrics(folder_.path()); }, ThrowsMessage<Error>(HasSubstr("metrics.jsonl:2: not a metrics")));
}

TEST_F(MetricsTest, NumbersSurviveAResumeUnchanged) {
  const std::string line = R"({"kind":"step","step":1,"train_loss":2.3025850929940455,"lr":1e-07,"batch":4096})";
  append(line + "\n");
  const MetricsWriter metrics(folder_.path(), 1);
  EXPECT_EQ(jsonl(), checked(line));
}

TEST_F(MetricsTest, ANewRunReplacesTheOldFiles) {
  { MetricsWriter(folder_.path(), {}).write(step_record(5)); }
  const MetricsWriter metrics(folder_.path(), {});
  EXPECT_EQ(jsonl(), "");
  EXPECT_EQ(EventReader(read_file(run_.events())).read().size(), 1U);
}

}  // namespace
}  // namespace covnoise
