// The published data sets: names, checksums and sites of their files.
#include "datasets/class_names.h"
#include "datasets/file_set.h"

namespace covnoise {
namespace {

using Form = Layout::Form;

FileSet mnist() {
  Layout raw{Form::kIdx,
             "MNIST/raw",
             {{"train-images-idx3-ubyte", "6bbc9ace898e44ae57da46a324031adb", "f68b3c2dcbeaaa9fbdd348bbdeb94873"},
              {"train-labels-idx1-ubyte", "a25bea736e30d166cdddb491f175f624", "d53e105ee54ea40749a09fcbcd1e9432"}},
             {{"t10k-images-idx3-ubyte", "2646ac647ad5339dbf082846283269ea", "9fb629c4189551a2d022fa330f9573f3"},
              {"t10k-labels-idx1-ubyte", "27ae3e4e09519cfbb04c329615203637", "ec29112dd5afa0611ce80d1b7f02629c"}}};
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
             {{"train-images-idx3-ubyte", "f4a8712d7a061bf5bd6d2ca38dc4d50a", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"},
              {"train-labels-idx1-ubyte", "9018921c3c673c538a1fc5bad174d6f9", "25c81989df183df01b3e8a0aad5dffbe"}},
             {{"t10k-images-idx3-ubyte", "8181f5470baa50b63fa0f6fddb340f0a", "bef4ecab320f06d8554ea6380940ec79"},
              {"t10k-labels-idx1-ubyte", "15d484375f8d13e6eb1aabb0c3f46965", "bb300cfdad3c16e7a12a480ee83cd310"}}};
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
                {{"data_batch_1.bin", "5dd7e06a14cb22eb9f671a540d1b7c25", ""},
                 {"data_batch_2.bin", "5ea93a67294ea407fff1d09f752e9692", ""},
                 {"data_batch_3.bin", "942cd6a4bcdd0dd3c604fbe906cb4421", ""},
                 {"data_batch_4.bin", "ae636b3ba5c66a11e91e8cb52e771fcb", ""},
                 {"data_batch_5.bin", "53f37980c15c3d472c316c40844f3f0d", ""}},
                {{"test_batch.bin", "803d5f7f4d78ea53de84dbe85f74fb6d", ""}}};
  Layout python{Form::kCifarPython,
                "cifar-10-batches-py",
                {{"data_batch_1", "c99cafc152244af753f735de768cd75f", ""},
                 {"data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec", ""},
                 {"data_batch_3", "54ebc095f3ab1f0389bbae665268c751", ""},
                 {"data_batch_4", "634d18415352ddfa80567beed471001a", ""},
                 {"data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb", ""}},
                {{"test_batch", "40351d587109b95175f43aff81a1287e", ""}}};
  return {{"cifar10", 3, 32, 32, 10, 50000, 10000, ""},
          cifar10_names(),
          true,
          {binary, python},
          {"https://www.cs.toronto.edu/~kriz/"},
          {{"cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530", true}},
          "ada4d704b313e3b8db907bc20a3fc3bb47c8e6eb00b01603da3d3ea9959cfdce"};
}

FileSet cifar100() {
  Layout binary{Form::kCifarBinary,
                "cifar-100-binary",
                {{"train.bin", "6172c7755cfe09b2fe270c85cebc1b15", ""}},
                {{"test.bin", "4499cfba6c016c1be1438163640a0898", ""}}};
  Layout python{Form::kCifarPython,
                "cifar-100-python",
                {{"train", "16019d7e3df5f24257cddd939b257f8d", ""}},
                {{"test", "f0ef6b0ae62326f3e7ffdfab6717acfc", ""}}};
  return {{"cifar100", 3, 32, 32, 100, 50000, 10000, ""},
          cifar100_names(),
          true,
          {binary, python},
          {"https://www.cs.toronto.edu/~kriz/"},
          {{"cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8", true}},
          "ad9327e57ee0f982d9a6d294cda672ea8d15d0271b389ee33f4a49a43894f9dd"};
}

}  // namespace

std::vector<Download> packed_files(const Layout& layout) {
  std::vector<Download> downloads;
  for (const auto* list : {&layout.train, &layout.test}) {
    for (const KnownFile& file : *list) downloads.push_back({file.name + ".gz", file.packed_md5, false});
  }
  return downloads;
}

const std::vector<FileSet>& file_sets() {
  static const std::vector<FileSet> sets{mnist(), fashion_mnist(), cifar10(), cifar100()};
  return sets;
}

}  // namespace covnoise
