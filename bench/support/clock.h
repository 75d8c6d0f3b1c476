#pragma once
#include "covnoise/core/threads.h"

#include <ctime>

namespace covnoise::bench {

/// Seconds. On one processor (`taskset -c 0`) the CPU time of this process, which other load disturbs less.
inline double seconds() {
  timespec time;
  clock_gettime(available_processors() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace covnoise::bench
