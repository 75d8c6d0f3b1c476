#pragma once
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/train/bucket_options.h"

#include <vector>

namespace covnoise {

/// Runs of whole layers that make up the buffer, in its order and of about the same size. A backward pass is through
/// with them from the last to the first, where layers stand in the order of their use.
std::vector<FlatParameters> cut_in_buckets(const FlatParameters& parameters, const BucketOptions& options);

}  // namespace covnoise
