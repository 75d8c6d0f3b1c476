#include "core/safetensors_header.h"

#include <nlohmann/json.hpp>

#include <unordered_set>

namespace covnoise {
namespace {

constexpr const char* kMetadataKey = "__metadata__";
constexpr std::size_t kMostNumbers = 16;  // in a list

/// Takes the header's parts one after another as nlohmann's parser comes across them. Nothing is nested: a part that
/// does not belong where it is ends the reading.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Refuse = std::function<void(std::uint64_t byte, const std::string& what)>;
  explicit HeaderEvents(const Refuse& refuse) : refuse_(refuse) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) return go(Place::kNames);
    if (place_ != Place::kNames) return misplaced();
    if (name_ == kMetadataKey) return go(Place::kMetadata);
    header_.slots.push_back({name_, {}, {}, {}});
    seen_.clear();
    return go(Place::kTensor);
  }
  bool end_object() override {
    if (place_ == Place::kTensor && seen_.size() != 3) return not_described();
    return go(place_ == Place::kNames ? Place::kEnd : Place::kNames);
  }
  bool key(std::string& key) override {
    if (place_ == Place::kNames) {
      name_ = key;
      return names_.insert(key).second || wrong(key + " twice");
    }
    key_ = key;
    if (place_ == Place::kMetadata) return header_.metadata.count(key) == 0 || wrong(key + " twice");
    const bool known = key == "dtype" || key == "shape" || key == "data_offsets";
    if (!known) return not_described();
    return seen_.insert(key).second || wrong(name_ + ": " + key + " twice");
  }
  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = text;
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      header_.slots.back().dtype = text;
    } else {
      return misplaced();
    }
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return misplaced();
    return go(Place::kNumbers);
  }
  bool number_unsigned(std::uint64_t number) override {
    if (place_ != Place::kNumbers) return misplaced();
    auto& slot = header_.slots.back();
    auto& numbers = key_ == "shape" ? slot.shape : slot.offsets;
    if (numbers.size() == kMostNumbers) return misplaced();
    numbers.push_back(number);
    return true;
  }
  bool end_array() override { return go(Place::kTensor); }

  bool null() override { return misplaced(); }
  bool boolean(bool) override { return misplaced(); }
  bool number_integer(std::int64_t) override { return misplaced(); }
  bool number_float(double, const std::string&) override { return misplaced(); }
  bool binary(nlohmann::json::binary_t&) override { return misplaced(); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::json::exception&) override {
    refuse_(byte, "bad JSON in the header");
    return false;
  }

 private:
  enum class Place { kStart, kNames, kMetadata, kTensor, kNumbers, kEnd };

  bool go(Place place) {
    place_ = place;
    return true;
  }
  bool wrong(const std::string& what) const {
    refuse_(0, "header: " + what);
    return false;
  }
  bool not_described() const { return wrong(name_ + " is not described by dtype, shape and data_offsets"); }
  bool misplaced() const {
    if (place_ == Place::kStart) return wrong("not a JSON object");
    if (place_ == Place::kMetadata) return wrong("__metadata__ holds more than text");
    if (place_ == Place::kNames)
      return name_ == kMetadataKey ? wrong("__metadata__ is not an object") : not_described();
    return wrong(key_ == "dtype" ? name_ + " has an element type that is not text" : name_ + " has a bad " + key_);
  }

  const Refuse& refuse_;
  SafetensorsHeader header_;
  Place place_ = Place::kStart;
  std::string name_, key_;                 // the last ones
  std::unordered_set<std::string> names_;  // so far
  std::unordered_set<std::string> seen_;   // keys of the tensor
};

}  // namespace

SafetensorsHeader parse_safetensors_header(
    std::string_view text, const std::function<void(std::uint64_t byte, const std::string& what)>& refuse) {
  HeaderEvents events(refuse);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  return events.take();
}

}  // namespace covnoise
