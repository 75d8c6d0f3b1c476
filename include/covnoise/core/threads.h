#pragma once

namespace covnoise {

/// Number of processors this process may run on (its CPU affinity).
int available_processors();

/// Sets the number of threads of LibTorch and OpenMP; 0 takes all available processors. Debian's LibTorch starts with
/// one.
void set_threads(int count);

}  // namespace covnoise
