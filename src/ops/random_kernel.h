#pragma once
#include "covnoise/ops/philox.h"

#include <cstdint>

namespace covnoise {

/// Elements [begin, end) of the stream's normals into out[0...]; begin is a multiple of 4. Raw pointers without
/// LibTorch, so that the file can be compiled with its own floating-point options.
void normals(const RandomStream& stream, std::int64_t begin, std::int64_t end, float* out);

/// noise = sqrt(variance) normal scale, `count` elements of float or double; here because compilers vectorise square
/// roots only with this file's options.
template <typename T>
void scale_normals(std::int64_t count, const T* variance, T scale, const float* normal, T* noise);

}  // namespace covnoise
