#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

struct TarMember {
  std::string name;              // full path inside the archive
  std::filesystem::path target;  // the file to write
};

/// Unpacks the named regular files of a tar.gz archive, and nothing else: no name from inside the archive ever becomes
/// a path. Other files and folders are skipped; links, devices and extended headers are refused.
void unpack_tar(const std::filesystem::path& archive, const std::vector<TarMember>& members);

}  // namespace covnoise
