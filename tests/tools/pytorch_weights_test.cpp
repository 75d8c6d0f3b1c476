// The weights of a PyTorch network go into covnoise and come out again, bit for bit (docs/pytorch.md).
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "support/paths.h"
#include "support/program.h"

namespace covnoise {
namespace {

using ::testing::HasSubstr;

class PytorchWeights : public testing::ProgramFixture {
 protected:
  Result python(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"/usr/bin/python3"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    testing::Process process(words, folder_ / "log");
    const int code = process.wait();
    return {code, process.output()};
  }
};

TEST_F(PytorchWeights, GoInAndComeOutBitForBit) {
  if (!std::filesystem::exists("/usr/bin/python3") || python({"-c", "import torch, numpy"}).code != 0)
    GTEST_SKIP() << "needs /usr/bin/python3 with PyTorch (python3-torch)";
  const std::string script = (testing::source_dir() / "tests/tools/pytorch_weights.py").string();
  const auto file = folder_ / "w.safetensors", out = folder_ / "run";
  const auto written = python({script, "write", file.string()});
  ASSERT_EQ(written.code, 0) << written.output;
  const auto trained = run({"train", "--model", "resnet8", "--data", "textures", "--init", file.string(), "--epochs",
                            "1", "--threads", "1", "--out", out.string(), "--set", "data.train_limit=128", "--set",
                            "data.test_limit=50", "--set", "train.snapshot_every=100"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("tensors are those of " + file.string()));
  EXPECT_THAT(read_file(out / "config.toml"), HasSubstr("init_sha256 = \"" + sha256_hex_of_file(file) + "\""));
  const auto same = python({script, "compare", file.string(), (out / "snapshots/step-00000000.safetensors").string()});
  EXPECT_EQ(same.code, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("37 tensors are the same"));
  const auto other =
      python({script, "compare", file.string(), (out / "checkpoints/step-00000001/model.safetensors").string()});
  EXPECT_THAT(other.output, HasSubstr("differs"));  // after a step
  expect_one_line({"train", "--model", "resnet14", "--data", "textures", "--init", file.string(), "--out",
                   (folder_ / "other").string()},
                  "does not match the network; missing: ");
}

}  // namespace
}  // namespace covnoise
