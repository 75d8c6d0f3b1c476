#include "datasets/formats/folder_files.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <system_error>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

/// Entries of a folder, sorted by name, without hidden ones.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().front() != '.') paths.push_back(it->path());
  }
  if (error) throw Error(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> class_names(const fs::path& split, std::vector<fs::path>& ignored) {
  std::vector<std::string> names;
  for (const fs::path& path : entries(split)) {
    if (fs::is_directory(path)) {
      names.push_back(path.filename().string());
    } else {
      ignored.push_back(path);
    }
  }
  if (names.size() < 2) {
    throw Error(fmt::format("{}: {} class folders; at least 2 are needed", split.string(), names.size()));
  }
  return names;
}

void expect_same_classes(const fs::path& root, const std::vector<std::string>& train,
                         const std::vector<std::string>& test, const std::string& test_folder) {
  std::vector<std::string> odd;
  std::set_symmetric_difference(train.begin(), train.end(), test.begin(), test.end(), std::back_inserter(odd));
  if (odd.empty()) return;
  const bool in_train = std::binary_search(train.begin(), train.end(), odd.front());
  throw Error(fmt::format("{}: class '{}' is in {} but not in {}: both must have the same classes", root.string(),
                          odd.front(), in_train ? "train" : test_folder, in_train ? test_folder : "train"));
}

bool has_image_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg" || extension == ".webp";
}

std::vector<ImageFile> images_of(const fs::path& split, const std::vector<std::string>& classes,
                                 std::vector<fs::path>& ignored) {
  std::vector<ImageFile> images;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path folder = split / classes[label];
    const std::size_t before = images.size();
    for (const fs::path& file : entries(folder)) {
      if (has_image_extension(file) && !fs::is_directory(file)) {
        images.push_back({file, static_cast<std::int64_t>(label)});
      } else {
        ignored.push_back(file);
      }
    }
    if (images.size() == before) throw Error(fmt::format("{}: no images", folder.string()));
  }
  return images;
}

}  // namespace

FolderFiles list_folder(const fs::path& root) {
  FolderFiles files;
  files.test_folder = fs::is_directory(root / "test") ? "test" : "val";
  files.val_unused = files.test_folder == "test" && fs::is_directory(root / "val");
  for (const std::string& split : {std::string("train"), files.test_folder}) {
    if (!fs::is_directory(root / split)) {
      throw Error(fmt::format("{}: not a folder; folder:{} needs train/, and test/ or val/, with one folder per class",
                              (root / split).string(), root.string()));
    }
  }
  files.classes = class_names(root / "train", files.ignored);
  expect_same_classes(root, files.classes, class_names(root / files.test_folder, files.ignored), files.test_folder);
  files.train = images_of(root / "train", files.classes, files.ignored);
  files.test = images_of(root / files.test_folder, files.classes, files.ignored);
  return files;
}

}  // namespace covnoise
