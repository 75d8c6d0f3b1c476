#include "covnoise/core/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A file with this header.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

auto decoding(const std::string& bytes) {
  return [bytes] { decode_safetensors(bytes, "x.safetensors"); };
}

TEST(Safetensors, GivesBackEveryTypeShapeAndOrder) {
  TensorFile file;
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort, at::kChar,
                          at::kByte, at::kBool}) {
    file.tensors.emplace_back(std::string("z.") + c10::toString(type), at::arange(-3, 9).reshape({3, 4}).to(type));
  }
  file.tensors.emplace_back("scalar", at::full({}, 2.5));
  file.tensors.emplace_back("empty", at::empty({0, 5}));
  file.tensors.emplace_back("a.transposed", at::arange(6).reshape({2, 3}).t());
  file.metadata = {{"format", "pt"}, {"note", "\"quoted\" \xc3\xa4"}};
  const auto read = decode_safetensors(encode_safetensors(file), "x");
  EXPECT_EQ(read.metadata, file.metadata);
  ASSERT_EQ(read.tensors.size(), file.tensors.size());
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(read.tensors[i].first, file.tensors[i].first);
    EXPECT_EQ(read.tensors[i].second.scalar_type(), file.tensors[i].second.scalar_type());
    EXPECT_TRUE(at::equal(read.tensors[i].second, file.tensors[i].second)) << read.tensors[i].first;
  }
}

TEST(Safetensors, HasTheFormatsBytes) {
  const TensorFile file{{{"w", at::full({1, 2}, 1.0F)}, {"n", at::full({1}, 258, at::kLong)}}, {{"k", "v"}}};
  const std::string header = R"({"__metadata__":{"k":"v"},"w":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
                             R"("n":{"dtype":"I64","shape":[1],"data_offsets":[8,16]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string data("\0\0\x80\x3f\0\0\x80\x3f\x02\x01\0\0\0\0\0\0", 16);
  EXPECT_EQ(encode_safetensors(file), file_of(padded, data));
}

TEST(Safetensors, ReadsAHeaderInAnotherOrderThanTheData) {
  const auto file = decode_safetensors(file_of(R"({"b":{"shape":[1],"data_offsets":[1,2],"dtype":"U8"},)"
                                               R"("a":{"dtype":"U8","data_offsets":[0,1],"shape":[1]}})",
                                               "\x05\x07"),
                                       "x");
  EXPECT_EQ(file.tensors[0].first, "a");
  EXPECT_EQ(file.tensors[1].second.item<int>(), 7);
}

TEST(Safetensors, RefusesWithFileAndByte) {
  const auto one = [](const std::string& entry, const std::string& data = "abcd") {
    return decoding(file_of("{\"w\":" + entry + "}", data));
  };
  const auto message = [](const char* text) { return ThrowsMessage<Error>(HasSubstr(text)); };
  EXPECT_THAT(decoding("abc"), message("x.safetensors: byte 3: ends within the length of the header"));
  EXPECT_THAT(decoding(std::string(8, '\xff')), message("byte 0: a header of 18446744073709551615 bytes"));
  EXPECT_THAT(decoding(file_of("{", "")), message("bad JSON"));
  EXPECT_THAT(decoding(file_of("[]", "")), message("not a JSON object"));
  EXPECT_THAT(one(R"({"dtype":"F31","shape":[1],"data_offsets":[0,4]})"), message("unknown element type \"F31\""));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
              message("a size that does not match its shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), message("bad shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), message("bad shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
              message("impossible shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]})"),
              message("impossible shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[0,9e9,9e9],"data_offsets":[0,0]})", ""), message("bad shape"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[0,9000000000,9000000000],"data_offsets":[0,0]})", ""),
              message("impossible shape"));
  EXPECT_THAT(one(R"({"dtype":"U8","shape":[3],"data_offsets":[1,4]})"), message("does not start where"));
  EXPECT_THAT(one(R"({"dtype":"U8","shape":[3],"data_offsets":[0,3]})"), message("1 bytes too many"));
  EXPECT_THAT(one(R"({"dtype":"U8","shape":[5],"data_offsets":[0,5]})"), message("ends within w"));
  EXPECT_THAT(one(R"({"dtype":"U8","shape":[4]})"), message("not described by"));
  EXPECT_THAT(one(R"({"dtype":"BOOL","shape":[4],"data_offsets":[0,4]})"), message("neither true nor false"));
  const std::string w = R"({"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  EXPECT_THAT(decoding(file_of("{\"w\":" + w + ",\"w\":" + w + "}", "ab")), message("w twice"));
}

TEST(Safetensors, AnyDamageIsAnErrorOrAnotherValidFile) {
  const std::string good = encode_safetensors({{{"w", at::ones({3, 2})}, {"b", at::arange(4)}}, {}});
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    const std::size_t bit = random() % (8 * bad.size());
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    try {
      decode_safetensors(bad, "x");
    } catch (const Error&) {
    }
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(decode_safetensors(good.substr(0, size), "x"), Error);
}

TEST(Safetensors, RefusesANameTwice) {
  EXPECT_THROW(encode_safetensors({{{"w", at::ones({1})}, {"w", at::ones({1})}}, {}}), c10::Error);
}

TEST(Safetensors, WritesAFile) {
  const testing::TemporaryFolder folder;
  write_safetensors(folder / "x.safetensors", {{{"w", at::ones({3}).set_requires_grad(true)}}, {}});
  EXPECT_TRUE(at::equal(read_safetensors(folder / "x.safetensors").tensors.at(0).second, at::ones({3})));
}

// A list of pairs, searched for each new key, took 34 s for 80,000 of them.
TEST(Safetensors, ReadsAHundredThousandNames) {
  constexpr int kNames = 100'000;
  std::string header = "{";
  for (int i = 0; i < kNames; ++i)
    header += fmt::format(R"("{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  header.back() = '}';
  const auto file = decode_safetensors(file_of(header, ""), "x");
  ASSERT_EQ(file.tensors.size(), kNames);
  EXPECT_EQ(file.tensors[99'999].first, "99999");
}

TEST(Safetensors, RefusesNestingAtOnce) {
  const std::string deep(1'000'000, '[');
  const auto refused = [](const char* text) { return ThrowsMessage<Error>(HasSubstr(text)); };
  EXPECT_THAT(decoding(file_of("{\"w\":{\"dtype\":" + deep, "")), refused("w has an element type that is not text"));
  EXPECT_THAT(decoding(file_of("{\"w\":{\"shape\":" + deep, "")), refused("w has a bad shape"));
  EXPECT_THAT(decoding(file_of("{\"w\":" + deep, "")), refused("w is not described by"));
  EXPECT_THAT(decoding(file_of("{\"__metadata__\":{\"a\":" + deep, "")), refused("more than text"));
}

}  // namespace
}  // namespace covnoise
