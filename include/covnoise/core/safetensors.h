#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace covnoise {

using NamedTensor = std::pair<std::string, at::Tensor>;

/// Tensors with names, in their order, and free text about them.
struct TensorFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// The bytes of a safetensors file: header length (8 bytes, little-endian), JSON header padded with spaces to a
/// multiple of 8, the tensors' elements one after another. The same tensors give the same bytes.
std::string encode_safetensors(const TensorFile& file);

/// Strict inverse: header within the file, offsets contiguous and complete, shape times element size equal to the
/// bytes, no name twice, no unknown type. `name` is the file's in the Error, which also gives the byte. Tensors own
/// their memory.
TensorFile decode_safetensors(std::string_view bytes, const std::string& name);

void write_safetensors(const std::filesystem::path& path, const TensorFile& file);  ///< atomically, synced
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace covnoise
