#include "covnoise/core/threads.h"

#include <ATen/Parallel.h>
#include <sched.h>

#include <algorithm>

namespace covnoise {

int available_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

void set_threads(int count) { at::set_num_threads(count > 0 ? count : available_processors()); }

}  // namespace covnoise
