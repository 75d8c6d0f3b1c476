#include "train/ranks/buckets.h"

#include <algorithm>
#include <string>

namespace covnoise {
namespace {

std::string layer_of(const FlatParameters::Entry& entry) { return entry.name.substr(0, entry.name.rfind('.')); }

}  // namespace

std::vector<FlatParameters> cut_in_buckets(const FlatParameters& parameters, const BucketOptions& options) {
  const auto& entries = parameters.entries();
  const auto bytes = static_cast<std::int64_t>(parameters.values().nbytes());
  const std::int64_t count = std::clamp<std::int64_t>(bytes / options.least_bytes, 1, options.most);
  const std::int64_t size = (parameters.size() + count - 1) / count;
  std::vector<FlatParameters> buckets;  // from the last: what is left over for the first is small, and is waited for
  std::size_t end = entries.size();
  std::int64_t end_element = parameters.size();
  for (std::size_t i = end - 1; i > 0; --i) {
    const bool full = end_element - entries[i].offset >= size;
    if (!full || layer_of(entries[i]) == layer_of(entries[i - 1])) continue;
    buckets.push_back(parameters.slice(i, end));
    end = i;
    end_element = entries[i].offset;
  }
  buckets.push_back(parameters.slice(0, end));
  std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace covnoise
