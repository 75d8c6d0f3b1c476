#include "covnoise/core/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/safetensors_header.h"
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"

namespace covnoise {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are stored little-endian, as they lie in memory");

constexpr const char* kMetadata = "__metadata__";
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = 100'000'000;  // the limit of the format's own library

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr TypeName kTypes[] = {
    {at::kBool, "BOOL"}, {at::kByte, "U8"},  {at::kChar, "I8"},       {at::kShort, "I16"}, {at::kInt, "I32"},
    {at::kLong, "I64"},  {at::kHalf, "F16"}, {at::kBFloat16, "BF16"}, {at::kFloat, "F32"}, {at::kDouble, "F64"},
};

const char* name_of(at::ScalarType type) {
  for (const auto& entry : kTypes) {
    if (entry.type == type) return entry.name;
  }
  TORCH_CHECK(false, "safetensors has no element type ", type);
}

std::string encoded_header(const TensorFile& file) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  std::int64_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    TORCH_CHECK(name != kMetadata && !header.contains(name), "two tensors named ", name);
    const auto end = offset + static_cast<std::int64_t>(tensor.nbytes());
    header[name] = {{"dtype", name_of(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}};
    header[name]["data_offsets"] = {offset, end};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

/// The file under examination; errors give its name and the byte.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  TensorFile read();

 private:
  struct Slot {
    std::string name;
    at::ScalarType type;
    std::vector<std::int64_t> shape;
    std::uint64_t begin, end;  // in the data section
  };

  [[noreturn]] void fail(std::uint64_t byte, const std::string& what) const {
    throw Error(fmt::format("{}: byte {}: {}; the file is damaged or not a safetensors file", name_, byte, what));
  }
  void require(bool good, const std::string& what) const {
    if (!good) fail(kLengthBytes, "header: " + what);
  }
  SafetensorsHeader header();
  Slot slot(const SafetensorsHeader::Slot& written) const;
  std::uint64_t bytes_of(const Slot& slot) const;
  at::Tensor tensor(const Slot& slot) const;

  std::string_view bytes_;
  const std::string& name_;
  std::uint64_t data_start_ = 0;
};

SafetensorsHeader Reader::header() {
  if (bytes_.size() < kLengthBytes) fail(bytes_.size(), "ends within the length of the header");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes_.data(), kLengthBytes);
  if (length > kLargestHeader || length > bytes_.size() - kLengthBytes) {
    fail(0, fmt::format("a header of {} bytes in a file of {}", length, bytes_.size()));
  }
  data_start_ = kLengthBytes + length;
  return parse_safetensors_header(
      bytes_.substr(kLengthBytes, length),
      [&](std::uint64_t byte, const std::string& what) { fail(kLengthBytes + byte, what); });
}

Reader::Slot Reader::slot(const SafetensorsHeader::Slot& written) const {
  const std::string& name = written.name;
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const TypeName& entry) { return written.dtype == entry.name; });
  require(type != std::end(kTypes), fmt::format("{} has the unknown element type \"{}\"", name, written.dtype));
  require(written.offsets.size() == 2, name + " has bad data_offsets");
  return {name, type->type, {written.shape.begin(), written.shape.end()}, written.offsets[0], written.offsets[1]};
}

std::uint64_t Reader::bytes_of(const Slot& slot) const {
  // Dimensions of size 0 count as 1 until the end: strides are products of the others and must not overflow either.
  std::uint64_t bytes = c10::elementSize(slot.type);
  for (const auto size : slot.shape) {
    const auto factor = std::max<std::int64_t>(size, 1);
    const bool fits = size >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(factor), &bytes);
    require(fits && bytes < (std::uint64_t{1} << 62), slot.name + " has an impossible shape");
  }
  return std::count(slot.shape.begin(), slot.shape.end(), 0) > 0 ? 0 : bytes;
}

at::Tensor Reader::tensor(const Slot& slot) const {
  const char* source = bytes_.data() + data_start_ + slot.begin;
  if (slot.type == at::kBool) {
    const auto* bad = std::find_if(source, source + (slot.end - slot.begin), [](char c) { return c != 0 && c != 1; });
    if (bad != source + (slot.end - slot.begin)) fail(bad - bytes_.data(), slot.name + ": neither true nor false");
  }
  auto result = at::empty(slot.shape, at::TensorOptions(slot.type));
  if (slot.end > slot.begin) std::memcpy(result.data_ptr(), source, slot.end - slot.begin);
  return result;
}

TensorFile Reader::read() {
  SafetensorsHeader written = header();
  TensorFile file;
  file.metadata = std::move(written.metadata);
  std::vector<Slot> slots;
  for (const auto& one : written.slots) slots.push_back(slot(one));
  // The format allows another order in the header than in the data.
  std::stable_sort(slots.begin(), slots.end(),
                   [](const Slot& a, const Slot& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  const std::uint64_t available = bytes_.size() - data_start_;
  std::uint64_t offset = 0;
  for (const auto& slot : slots) {
    require(slot.begin == offset && slot.end >= slot.begin,
            slot.name + " does not start where the tensor before it ends");
    require(slot.end - slot.begin == bytes_of(slot), slot.name + " has a size that does not match its shape");
    if (slot.end > available) fail(bytes_.size(), "the file ends within " + slot.name);
    offset = slot.end;
  }
  if (offset != available) fail(data_start_ + offset, fmt::format("{} bytes too many", available - offset));
  for (const auto& slot : slots) file.tensors.emplace_back(slot.name, tensor(slot));
  return file;
}

}  // namespace

std::string encode_safetensors(const TensorFile& file) {
  const std::string header = encoded_header(file);
  const std::uint64_t length = header.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  bytes += header;
  std::size_t size = bytes.size();
  for (const auto& item : file.tensors) size += item.second.nbytes();
  bytes.reserve(size);
  for (const auto& item : file.tensors) {
    const auto plain = item.second.detach().to(at::kCPU).contiguous();
    if (plain.numel() > 0) bytes.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  }
  return bytes;
}

TensorFile decode_safetensors(std::string_view bytes, const std::string& name) { return Reader(bytes, name).read(); }

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  write_file_synced(path, encode_safetensors(file));
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  return decode_safetensors(read_file(path), path.string());
}

}  // namespace covnoise
