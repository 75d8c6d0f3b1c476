#include "datasets/formats/cifar.h"

#include "datasets/formats/pickles.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

namespace covnoise::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kPixels = 3072;

std::string record10(int label, int first) { return std::string(1, static_cast<char>(label)) + ramp(kPixels, first); }

std::string record100(int coarse, int fine, int first) {
  return std::string(1, static_cast<char>(coarse)) + record10(fine, first);
}

/// Image whose bytes are first, first + 1, ... modulo 256.
at::Tensor image(int first) {
  return (torch::arange(first, first + kPixels) % 256).to(torch::kByte).reshape({3, 32, 32});
}

class Cifar : public ::testing::Test {
 protected:
  std::string python_error(const std::string& bytes, std::int64_t classes = 10) {
    write_bytes(folder_ / "batch", bytes);
    return error_of([&] { read_cifar_python({folder_ / "batch"}, classes); });
  }
  TemporaryFolder folder_;
};

TEST_F(Cifar, ReadsBinaryFilesInOrder) {
  write_bytes(folder_ / "a", record10(9, 0) + record10(2, 7));
  write_bytes(folder_ / "b", record10(5, 100));
  const Dataset set = read_cifar_binary({folder_ / "a", folder_ / "b"}, 10);
  EXPECT_TRUE(set.labels.equal(torch::tensor({9, 2, 5}, torch::kLong)));
  EXPECT_TRUE(set.images.equal(torch::stack({image(0), image(7), image(100)})));
}

TEST_F(Cifar, ReadsFineLabels) {
  write_bytes(folder_ / "a", record100(3, 99, 1) + record100(19, 0, 2));
  const Dataset set = read_cifar_binary({folder_ / "a"}, 100);
  EXPECT_TRUE(set.labels.equal(torch::tensor({99, 0}, torch::kLong)));
  EXPECT_TRUE(set.images.equal(torch::stack({image(1), image(2)})));
}

TEST_F(Cifar, RefusesBrokenBinaryFiles) {
  const auto error = [&](const std::string& bytes, std::int64_t classes) {
    write_bytes(folder_ / "a", bytes);
    return error_of([&] { read_cifar_binary({folder_ / "a"}, classes); });
  };
  EXPECT_THAT(error(record10(1, 0) + "x", 10),
              HasSubstr("a: 3074 bytes is not a whole number of records of 3073 bytes: byte 3073"));
  EXPECT_THAT(error("", 10), HasSubstr("a: 0 bytes"));
  EXPECT_THAT(error(record10(1, 0) + record10(10, 0), 10), HasSubstr("a: byte 3073: label 10, but labels are 0 to 9"));
  EXPECT_THAT(error(record100(1, 100, 0), 100), HasSubstr("a: byte 1: label 100, but labels are 0 to 99"));
}

TEST_F(Cifar, RefusesHugeFilesBeforeItReservesMemory) {
  write_bytes(folder_ / "huge", "");
  std::filesystem::resize_file(folder_ / "huge", std::uintmax_t{3073} << 30);
  const auto message = HasSubstr("huge: 3299608625152 bytes, but at most 268435456 are read");
  EXPECT_THAT(error_of([&] { read_cifar_binary({folder_ / "huge"}, 10); }), message);
  EXPECT_THAT(error_of([&] { read_cifar_python({folder_ / "huge"}, 10); }), message);
}

TEST_F(Cifar, ReadsPythonFiles) {
  for (const auto& [classes, key] : {std::pair{10, "labels"}, std::pair{100, "fine_labels"}}) {
    write_bytes(folder_ / "a", pickled_batch(key, {9, 2}, kPixels));
    write_bytes(folder_ / "b", pickled_batch(key, {5}, kPixels));
    const Dataset set = read_cifar_python({folder_ / "a", folder_ / "b"}, classes);
    EXPECT_TRUE(set.labels.equal(torch::tensor({9, 2, 5}, torch::kLong)));
    EXPECT_TRUE(set.images.equal(torch::stack({image(0), image(0), image(0)})));  // 3072 is a multiple of 256
  }
}

TEST_F(Cifar, RefusesOtherPythonFiles) {
  EXPECT_THAT(python_error(pickle_of("N")), HasSubstr("batch: the pickle is not a dictionary"));
  EXPECT_THAT(python_error(pickle_of("}")), HasSubstr("batch: the pickled dictionary has no key 'data'"));
  EXPECT_THAT(python_error(pickled_batch("labels", {1}, kPixels), 100), HasSubstr("no key 'fine_labels'"));
  EXPECT_THAT(python_error(pickle_of("}" + short_string("data") + "Ns")), HasSubstr("key 'data' has the wrong type"));
  EXPECT_THAT(python_error(pickled_batch("labels", {1}, 100)),
              HasSubstr("'data' has shape [1, 100], but must be [N, 3072]"));
  EXPECT_THAT(python_error(pickled_batch("labels", {1, 10}, kPixels)),
              HasSubstr("entry 1 of 'labels' is not a label from 0 to 9"));
}

TEST_F(Cifar, RefusesMissingLabels) {
  const std::string batch = pickle_of("}(" + short_string("data") + pickled_array(2, kPixels, ramp(2 * kPixels)) +
                                      short_string("labels") + pickled_labels({1}) + "u");
  EXPECT_THAT(python_error(batch), HasSubstr("1 labels under 'labels' for 2 images"));
}

TEST_F(Cifar, RefusesAnUnbuiltArray) {
  const std::string empty = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nNN\x87R";
  EXPECT_THAT(python_error(pickle_of("}(" + short_string("data") + empty + short_string("labels") + "]u")),
              HasSubstr("'data' has shape []"));
}

}  // namespace
}  // namespace covnoise::testing
