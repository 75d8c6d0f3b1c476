// Tiny stand-ins for the published data sets, with the same layouts.
#pragma once
#include "datasets/file_set.h"
#include "datasets/files.h"

namespace covnoise::testing {

/// Four IDX files of 2x3 images: three for training, two for testing.
struct TinyIdx {
  std::vector<std::pair<std::string, std::string>> files{{"train-images", idx_images(3, 2, 3)},
                                                         {"train-labels", idx_labels({0, 1, 2})},
                                                         {"test-images", idx_images(2, 2, 3)},
                                                         {"test-labels", idx_labels({2, 1})}};
  FileSet set() const {
    const auto known = [&](int i) {
      return KnownFile{files[i].first, sha256_text(files[i].second), sha256_text(packed(files[i].second))};
    };
    Layout layout{Layout::Form::kIdx, "Tiny/raw", {known(0), known(1)}, {known(2), known(3)}};
    return {{"tiny", 1, 2, 3, 3, 3, 2, ""}, {"a", "b", "c"}, false, {layout}, {}, packed_files(layout), ""};
  }
  void write_plain(const std::filesystem::path& folder) const {
    for (const auto& [name, bytes] : files) write_bytes(folder / name, bytes);
  }
  void write_packed(const std::filesystem::path& folder) const {
    for (const auto& [name, bytes] : files) write_bytes(folder / (name + ".gz"), packed(bytes));
  }
};

/// Two binary CIFAR files in an archive.
struct TinyArchive {
  std::string train = '\1' + ramp(3072), test = '\2' + ramp(3072, 5);
  std::string archive = tar_gz(tar_member("tiny-bin/", "", '5') + tar_member("tiny-bin/train.bin", train) +
                               tar_member("tiny-bin/readme.html", "read me") + tar_member("tiny-bin/test.bin", test));
  FileSet set() const {
    Layout layout{Layout::Form::kCifarBinary,
                  "tiny-bin",
                  {{"train.bin", sha256_text(train), ""}},
                  {{"test.bin", sha256_text(test), ""}}};
    return {
        {"tiny", 3, 32, 32, 10, 1, 1, ""}, {}, true, {layout}, {}, {{"tiny.tar.gz", sha256_text(archive), true}}, ""};
  }
};

}  // namespace covnoise::testing
