#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace covnoise {

/// A tensor under its name.
using NamedTensor = std::pair<std::string, at::Tensor>;

/// The content of a safetensors file.
struct TensorFile {
  std::vector<NamedTensor> tensors;             ///< in the order of the file
  std::map<std::string, std::string> metadata;  ///< free text about them
};

/// The bytes of a safetensors file: header length (8 bytes, little-endian), JSON header padded with spaces to a
/// multiple of 8, the elements of each tensor in turn. The same tensors give the same bytes.
std::string encode_safetensors(const TensorFile& file);

/// Strict inverse of encode_safetensors: the header is within the file, offsets are contiguous and complete, shape
/// times element size equals the number of bytes, names are unique, types are known. Otherwise an Error with `name` and
/// the byte. Tensors own their memory.
TensorFile decode_safetensors(std::string_view bytes, const std::string& name);

/// Writes the file atomically and syncs it.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);
/// Reads a file as decode_safetensors does.
TensorFile read_safetensors(const std::filesystem::path& path);

}  // namespace covnoise
