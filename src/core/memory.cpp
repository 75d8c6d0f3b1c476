#include "covnoise/core/memory.h"

#include <fstream>
#include <limits>
#include <string>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace covnoise {

void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

std::int64_t allocated_bytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const auto heap = mallinfo2();
  return static_cast<std::int64_t>(heap.uordblks + heap.hblkhd);
#else
  return 0;
#endif
}

std::int64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::int64_t kibibytes = 0;
  while (file >> word) {
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace covnoise
