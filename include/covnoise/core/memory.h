#pragma once
#include <cstdint>

namespace covnoise {

/// Keeps freed memory in the process instead of returning large blocks to the system at once. A training step frees and
/// allocates the same tensors over and over; with glibc's defaults each large one is mapped anew, and zeroing its pages
/// costs more than a pass of batch normalisation over it. Call it once, at the start of a program.
void keep_freed_memory();

/// Bytes of heap memory that the program has allocated and not freed; 0 where the C library cannot tell.
std::int64_t allocated_bytes();

/// Bytes that programs could still allocate without swapping; 0 where the system does not say.
std::int64_t available_bytes();

}  // namespace covnoise
