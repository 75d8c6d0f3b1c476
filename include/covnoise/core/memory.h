#pragma once
#include <cstdint>

namespace covnoise {

/// Keeps freed memory in the process instead of giving large blocks back to the system at once. A training step frees
/// and takes the same tensors again and again; with glibc's defaults each large one is mapped anew, and zeroing its
/// pages costs more than a pass of batch normalisation over it. To be called once, at the start of a program.
void keep_freed_memory();

/// Bytes of heap memory that the program has taken and not given back; 0 where the C library cannot tell.
std::int64_t allocated_bytes();

/// Bytes that the machine could still give to programs without swapping; 0 where it does not say.
std::int64_t available_bytes();

}  // namespace covnoise
