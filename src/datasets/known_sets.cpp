// The published data sets: names, SHA-256 and sites of their files. Those of the downloads are also in the checksums of
// TensorFlow Datasets; the authors publish MD5, which detects damage but not attacks.
#include "datasets/class_names.h"
#include "datasets/file_set.h"

namespace covnoise {
namespace {

using Form = Layout::Form;

FileSet mnist() {
  Layout raw{Form::kIdx,
             "MNIST/raw",
             {{"train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
               "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
              {"train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
               "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"}},
             {{"t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
               "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
              {"t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
               "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}};
  return {{"mnist", 1, 28, 28, 10, 60000, 10000, ""},
          digit_names(),
          false,
          {raw},
          {"https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"},
          packed_files(raw),
          "75b8f80ec8db16157610bc7bcc61a16a346bfd8c951bc82ec061b33a816c22d8"};
}

FileSet fashion_mnist() {
  Layout raw{Form::kIdx,
             "FashionMNIST/raw",
             {{"train-images-idx3-ubyte", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
               "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
              {"train-labels-idx1-ubyte", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
               "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"}},
             {{"t10k-images-idx3-ubyte", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
               "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
              {"t10k-labels-idx1-ubyte", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
               "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}};
  return {{"fashion-mnist", 1, 28, 28, 10, 60000, 10000, ""},
          fashion_names(),
          false,
          {raw},
          {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"},
          packed_files(raw),
          "a6ff82ad470fe6f62acf66bba39cb139d9da8c7b0c0aabe4f515c443ba4cb763"};
}

FileSet cifar10() {
  Layout binary{Form::kCifarBinary,
                "cifar-10-batches-bin",
                {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5", ""},
                 {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed", ""},
                 {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67", ""},
                 {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48", ""},
                 {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add", ""}},
                {{"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b", ""}}};
  Layout python{Form::kCifarPython,
                "cifar-10-batches-py",
                {{"data_batch_1", "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd", ""},
                 {"data_batch_2", "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8", ""},
                 {"data_batch_3", "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9", ""},
                 {"data_batch_4", "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b", ""},
                 {"data_batch_5", "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154", ""}},
                {{"test_batch", "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831", ""}}};
  return {{"cifar10", 3, 32, 32, 10, 50000, 10000, ""},
          cifar10_names(),
          true,
          {binary, python},
          {"https://www.cs.toronto.edu/~kriz/"},
          {{"cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", true}},
          "ada4d704b313e3b8db907bc20a3fc3bb47c8e6eb00b01603da3d3ea9959cfdce"};
}

FileSet cifar100() {
  Layout binary{Form::kCifarBinary,
                "cifar-100-binary",
                {{"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29", ""}},
                {{"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a", ""}}};
  Layout python{Form::kCifarPython, "cifar-100-python", {{"train", "", ""}}, {{"test", "", ""}}};
  return {{"cifar100", 3, 32, 32, 100, 50000, 10000, ""},
          cifar100_names(),
          true,
          {binary, python},
          {"https://www.cs.toronto.edu/~kriz/"},
          {{"cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", true}},
          "ad9327e57ee0f982d9a6d294cda672ea8d15d0271b389ee33f4a49a43894f9dd"};
}

}  // namespace

std::vector<Download> packed_files(const Layout& layout) {
  std::vector<Download> downloads;
  for (const auto* list : {&layout.train, &layout.test}) {
    for (const KnownFile& file : *list) downloads.push_back({file.name + ".gz", file.packed_sha256, false});
  }
  return downloads;
}

const std::vector<FileSet>& file_sets() {
  static const std::vector<FileSet> sets{mnist(), fashion_mnist(), cifar10(), cifar100()};
  return sets;
}

}  // namespace covnoise
