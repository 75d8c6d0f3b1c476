#include "datasets/formats/pickle.h"

#include "datasets/formats/pickles.h"

#include <gmock/gmock.h>

#include <random>

namespace covnoise::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string refusal(const std::string& bytes) {
  return error_of([&] { Pickle(bytes, "file"); });
}

TEST(Pickle, ReadsABatch) {
  const std::string bytes = pickled_batch("labels", {3, 1}, 6);
  const Pickle pickle(bytes, "file");
  const PickleObject* data = pickle.find(pickle.root(), "data");
  ASSERT_TRUE(data && data->kind == PickleObject::Kind::kArray);
  EXPECT_EQ(data->shape, (std::vector<std::int64_t>{2, 6}));
  EXPECT_EQ(data->bytes, ramp(12));
  const PickleObject* labels = pickle.find(pickle.root(), "labels");
  ASSERT_TRUE(labels && labels->items.size() == 2);
  EXPECT_EQ(pickle.at(labels->items[0]).integer, 3);
  EXPECT_EQ(pickle.find(pickle.root(), "filenames")->items.size(), 2U);
  EXPECT_EQ(pickle.find(pickle.root(), "other"), nullptr);
}

TEST(Pickle, ReadsMemoAndSingleItems) {
  const std::string bytes = pickle_of(
      "}q\x01U\x01xq\x02]q\x03h\x02"
      "as");  // {'x': ['x']}
  const Pickle pickle(bytes, "file");
  const PickleObject* list = pickle.find(pickle.root(), "x");
  ASSERT_TRUE(list && list->items.size() == 1);
  EXPECT_EQ(pickle.at(list->items[0]).bytes, "x");
}

TEST(Pickle, ReadsNegativeIntegers) {
  EXPECT_EQ(Pickle(pickle_of("J" + std::string(4, '\xff')), "file").root().integer, -1);
}

TEST(Pickle, RefusesEveryOtherOpcode) {
  const std::string known = "(.NRbc}]aesutJKMTUhjqr\x85\x86\x87\x89";
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (known.find(static_cast<char>(opcode)) != std::string::npos) continue;
    char shown[8];
    std::snprintf(shown, sizeof shown, "0x%02x", static_cast<unsigned>(opcode));
    EXPECT_THAT(refusal("\x80\x02N" + std::string(1, static_cast<char>(opcode))),
                AllOf(HasSubstr("file: byte 3: pickle opcode"), HasSubstr(shown)));
  }
}

TEST(Pickle, RefusesForeignGlobals) {
  EXPECT_THAT(refusal("\x80\x02"
                      "cos\nsystem\n(U\x02lstR."),
              HasSubstr("file: byte 2: global 'os.system' is refused"));
  EXPECT_THAT(refusal("\x80\x02"
                      "cnumpy\nload\n."),
              HasSubstr("global 'numpy.load'"));
  EXPECT_THAT(refusal("\x80\x02"
                      "c" +
                      std::string(1000, 'x')),
              HasSubstr("a name without an end"));
}

TEST(Pickle, RefusesOtherCallsAndStates) {
  EXPECT_THAT(refusal(pickle_of("NNR")), HasSubstr("byte 4: a call that"));
  EXPECT_THAT(refusal(pickle_of("cnumpy\ndtype\nU\x02"
                                "f8K\x01K\x01\x87R")),
              HasSubstr("only arrays of type 'u1'"));
  EXPECT_THAT(refusal(pickle_of("cnumpy\nndarray\nNNN\x87R")), HasSubstr("a call that"));
  EXPECT_THAT(refusal(pickle_of("]N\x85"
                                "b")),
              HasSubstr("only numpy's ndarray and dtype may have a state"));
  EXPECT_THAT(refusal(pickle_of("cnumpy\ndtype\nU\x02u1K\x01K\x01\x87R]\x85"
                                "b")),
              HasSubstr("structured"));
}

TEST(Pickle, RefusesShapesThatDoNotFit) {
  EXPECT_THAT(refusal(pickle_of(pickled_array(2, 3, ramp(5)))), HasSubstr("shape does not fit its 5 bytes"));
  EXPECT_THAT(refusal(pickle_of(pickled_array(2, 3, ramp(12)))), HasSubstr("shape does not fit its 12 bytes"));
  EXPECT_THAT(refusal(pickle_of(pickled_array(0, 3, ""))), HasSubstr("shape does not fit its 0 bytes"));
}

TEST(Pickle, RefusesBrokenStructure) {
  EXPECT_THAT(refusal(""), HasSubstr("file: byte 0"));
  EXPECT_THAT(refusal("\x80\x04N."), HasSubstr("pickle protocol 4; only protocol 2"));
  EXPECT_THAT(refusal("hello"), HasSubstr("not a pickle of protocol 2"));
  EXPECT_THAT(refusal("\x80\x02."), HasSubstr("an object is needed here"));
  EXPECT_THAT(refusal("\x80\x02N"), HasSubstr("1 bytes are needed here, but the file has only 0 more"));
  EXPECT_THAT(refusal(pickle_of("NN")), HasSubstr("objects left over"));
  EXPECT_THAT(refusal(pickle_of("N") + "x"), HasSubstr("byte 4: extra bytes"));
  EXPECT_THAT(refusal(pickle_of("Ne")), HasSubstr("a mark is needed here"));
  EXPECT_THAT(refusal(pickle_of("N(Ne")), HasSubstr("a list is needed here"));
  EXPECT_THAT(refusal(pickle_of("}(Nu")), HasSubstr("a dictionary key without a value"));
  EXPECT_THAT(refusal(pickle_of("]N(a")), HasSubstr("an object is needed here"));
}

TEST(Pickle, BoundsLengthsIndicesAndNesting) {
  EXPECT_THAT(refusal("\x80\x02T" + std::string(4, '\xff') + "abc"),
              HasSubstr("byte 2: 4294967295 bytes are needed here"));
  EXPECT_THAT(refusal("\x80\x02Nr" + std::string(4, '\xff')), HasSubstr("memo index 4294967295"));
  EXPECT_THAT(refusal("\x80\x02h\x05"), HasSubstr("memo index 5 was never stored"));
  EXPECT_THAT(refusal("\x80\x02" + std::string(100, '(')), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal("\x80\x02" + std::string(1'100'000, 'N')), HasSubstr("more than 1000000 objects"));
}

TEST(Pickle, TakesAListThatHoldsItself) {
  const std::string bytes = pickle_of(
      "]q\x01h\x01"
      "a");
  const Pickle pickle(bytes, "file");
  EXPECT_EQ(&pickle.at(pickle.root().items[0]), &pickle.root());
}

TEST(Pickle, SurvivesEveryCut) {
  const std::string bytes = pickled_batch("labels", {3, 1}, 6);
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(refusal(bytes.substr(0, size)), "") << size;
}

TEST(Pickle, SurvivesMutations) {
  const std::string good = pickled_batch("labels", {3, 1}, 6);
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (std::uint32_t i = 0; i <= random() % 3; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    refused += refusal(bytes).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 10000);
}

TEST(Pickle, SurvivesRandomPrograms) {
  const std::string opcodes = "(NRb}]aesutKUhq\x85\x86\x87\x89";
  std::mt19937 random(2);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = "\x80\x02";
    for (int i = 0; i < 40; ++i) {
      bytes += opcodes[random() % opcodes.size()];
      if (random() % 4 == 0) bytes += static_cast<char>(random() % 4);
    }
    refusal(bytes + ".");
  }
}

}  // namespace
}  // namespace covnoise::testing
