#pragma once
#include <cstdint>

namespace covnoise {

/// How the gradient is cut for the sums over ranks, the same on all of them.
struct BucketOptions {
  int most = 4;                                      ///< buckets; 1: one sum, after the backward pass
  std::int64_t least_bytes = std::int64_t{1} << 18;  ///< of a bucket: below, a message costs more than it hides
};

}  // namespace covnoise
