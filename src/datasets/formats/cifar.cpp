#include "datasets/formats/cifar.h"

#include "covnoise/core/error.h"
#include "datasets/formats/byte_file.h"
#include "datasets/formats/pickle.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <string>

namespace covnoise {
namespace {

constexpr std::int64_t kChannels = 3, kSide = 32, kPixels = kChannels * kSide * kSide;
constexpr std::uint64_t kLargestFile = std::uint64_t{256} << 20;  // the largest real one has 155 MB

Dataset empty_set(std::int64_t count) {
  return {at::empty({count, kChannels, kSide, kSide}, at::kByte), at::empty({count}, at::kLong)};
}

std::int64_t count_records(const std::filesystem::path& path, std::uint64_t record) {
  const std::uint64_t size = regular_file_size(path);
  if (size > kLargestFile) {
    throw Error(fmt::format("{}: {} bytes, but at most {} are read", path.string(), size, kLargestFile));
  }
  if (size == 0 || size % record != 0) {
    throw Error(fmt::format("{}: {} bytes is not a whole number of records of {} bytes: byte {} begins a broken record",
                            path.string(), size, record, size / record * record));
  }
  return static_cast<std::int64_t>(size / record);
}

/// Copies the records of one file to the examples from `first` to `end`.
void copy_records(const std::filesystem::path& path, std::uint64_t label_bytes, std::int64_t classes, Dataset& set,
                  std::int64_t first, std::int64_t end) {
  const std::string bytes = read_whole_file(path, kLargestFile);
  const std::uint64_t record = label_bytes + kPixels;
  if (bytes.size() != record * static_cast<std::uint64_t>(end - first)) {
    throw Error(fmt::format("{}: changed while it was read", path.string()));
  }
  auto* pixels = set.images.data_ptr<std::uint8_t>() + first * kPixels;
  auto* labels = set.labels.data_ptr<std::int64_t>() + first;
  for (std::uint64_t at = 0; at + record <= bytes.size(); at += record) {
    const auto label = static_cast<std::uint8_t>(bytes[at + label_bytes - 1]);
    if (label >= classes) {
      throw Error(fmt::format("{}: byte {}: label {}, but labels are 0 to {}", path.string(), at + label_bytes - 1,
                              label, classes - 1));
    }
    *labels++ = label;
    std::memcpy(pixels, bytes.data() + at + label_bytes, kPixels);
    pixels += kPixels;
  }
}

const PickleObject& required(const Pickle& pickle, const char* key, PickleObject::Kind kind, const std::string& where) {
  const PickleObject* value = pickle.find(pickle.root(), key);
  if (!value) throw Error(fmt::format("{}: the pickled dictionary has no key '{}'", where, key));
  if (value->kind != kind) throw Error(fmt::format("{}: the value of key '{}' has the wrong type", where, key));
  return *value;
}

Dataset read_batch(const std::filesystem::path& path, std::int64_t classes) {
  using Kind = PickleObject::Kind;
  const std::string where = path.string(), bytes = read_whole_file(path, kLargestFile);
  const Pickle pickle(bytes, where);
  if (pickle.root().kind != Kind::kDict) throw Error(fmt::format("{}: the pickle is not a dictionary", where));
  const char* key = classes == 100 ? "fine_labels" : "labels";
  const PickleObject& data = required(pickle, "data", Kind::kArray, where);
  const PickleObject& labels = required(pickle, key, Kind::kList, where);
  if (data.shape.size() != 2 || data.shape[1] != kPixels) {
    throw Error(
        fmt::format("{}: 'data' has shape [{}], but must be [N, {}]", where, fmt::join(data.shape, ", "), kPixels));
  }
  if (static_cast<std::int64_t>(labels.items.size()) != data.shape[0]) {
    throw Error(fmt::format("{}: {} labels under '{}' for {} images", where, labels.items.size(), key, data.shape[0]));
  }
  Dataset set = empty_set(data.shape[0]);
  std::memcpy(set.images.data_ptr(), data.bytes.data(), data.bytes.size());
  for (std::size_t i = 0; i < labels.items.size(); ++i) {
    const PickleObject& label = pickle.at(labels.items[i]);
    if (label.kind != Kind::kInteger || label.integer < 0 || label.integer >= classes) {
      throw Error(fmt::format("{}: entry {} of '{}' is not a label from 0 to {}", where, i, key, classes - 1));
    }
    set.labels.data_ptr<std::int64_t>()[i] = label.integer;
  }
  return set;
}

}  // namespace

Dataset read_cifar_binary(const std::vector<std::filesystem::path>& files, std::int64_t classes) {
  const std::uint64_t label_bytes = classes == 100 ? 2 : 1;
  std::vector<std::int64_t> first{0};
  for (const auto& file : files) first.push_back(first.back() + count_records(file, label_bytes + kPixels));
  Dataset set = empty_set(first.back());
  for (std::size_t i = 0; i < files.size(); ++i)
    copy_records(files[i], label_bytes, classes, set, first[i], first[i + 1]);
  return set;
}

Dataset read_cifar_python(const std::vector<std::filesystem::path>& files, std::int64_t classes) {
  std::vector<at::Tensor> images, labels;
  for (const auto& file : files) {
    const Dataset batch = read_batch(file, classes);
    images.push_back(batch.images);
    labels.push_back(batch.labels);
  }
  return {at::cat(images), at::cat(labels)};
}

}  // namespace covnoise
