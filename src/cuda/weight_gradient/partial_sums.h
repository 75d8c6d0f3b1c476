#pragma once
#include "cuda/types.h"

namespace covnoise::cuda {

/// Partial results in a workspace [slice][component][kernel offset][O][C], to be added up in order: outputs
/// [O][C][kernel offset]. With two components they are sums and squares; with one, the squares are those of the sums of
/// `slices_per_group` consecutive slices.
struct PartialSums {
  const float* workspace;
  int slices, slices_per_group, components;
  int offsets, outputs, channels;
  float* sums;
  bool add_sums;   ///< add to the existing values instead of overwriting them
  float* squares;  ///< added to; may be null
};

void add_partial_sums(const PartialSums& partial, cudaStream_t stream);

}  // namespace covnoise::cuda
