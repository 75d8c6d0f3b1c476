#include "covnoise/core/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

namespace covnoise {

int available_processors() {
  cpu_set_t set;
  const int processors = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  const char* limit = std::getenv("OMP_NUM_THREADS");
  const int most = limit ? std::atoi(limit) : 0;
  return most > 0 ? std::min(processors, most) : processors;
}

void set_threads(int count) { at::set_num_threads(count > 0 ? count : available_processors()); }

}  // namespace covnoise
