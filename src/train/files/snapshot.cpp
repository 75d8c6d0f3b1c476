#include "train/files/snapshot.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"

#include <fmt/format.h>

namespace covnoise {
namespace {

constexpr const char* kDigest = "sha256";

std::string digest_of(const std::vector<NamedTensor>& tensors) { return sha256_hex(encode_safetensors({tensors, {}})); }

}  // namespace

void write_snapshot(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  write_safetensors(path, {tensors, {{kDigest, digest_of(tensors)}}});
}

std::vector<NamedTensor> read_snapshot(const std::filesystem::path& path,
                                       const std::function<void(const std::string&)>& warn) {
  const TensorFile file = read_safetensors(path);
  if (file.metadata.empty()) {
    warn(fmt::format("{} is of an earlier version and has no checksum: damage would go unnoticed", path.string()));
    return file.tensors;
  }
  const auto found = file.metadata.find(kDigest);
  require(found != file.metadata.end() && found->second == digest_of(file.tensors),
          fmt::format("{} is damaged: it does not match its checksum; restore it from a copy, or choose another step",
                      path.string()));
  return file.tensors;
}

}  // namespace covnoise
