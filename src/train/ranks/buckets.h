#pragma once
#include "covnoise/nn/flat_parameters.h"
#include "covnoise/train/bucket_options.h"

#include <vector>

namespace covnoise {

/// Cuts the buffer into runs of whole layers of about the same size, in order. A backward pass finishes them from the
/// last to the first if the layers are in the order of their use.
std::vector<FlatParameters> cut_in_buckets(const FlatParameters& parameters, const BucketOptions& options);

}  // namespace covnoise
