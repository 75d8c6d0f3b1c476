#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

struct ImageFile {
  std::filesystem::path path;
  std::int64_t label;
};

/// The files of a folder with one folder per class.
struct FolderFiles {
  std::vector<std::string> classes;
  std::vector<ImageFile> train, test;          ///< by class, then by name
  std::vector<std::filesystem::path> ignored;  ///< neither folders of classes nor images
  std::string test_folder;                     ///< "test" or "val"
  bool val_unused = false;                     ///< both exist: val/ is not used
};

FolderFiles list_folder(const std::filesystem::path& root);

}  // namespace covnoise
