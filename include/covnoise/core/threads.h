#pragma once

namespace covnoise {

/// Number of processors this process may use: its CPU affinity, limited by $OMP_NUM_THREADS where that is set.
int available_processors();

/// Sets the number of threads of LibTorch and OpenMP; 0: all available processors. Debian's LibTorch starts with one.
void set_threads(int count);

}  // namespace covnoise
