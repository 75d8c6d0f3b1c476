#include "study_output.h"

#include "covnoise/plot/figure.h"

#include <cstdio>

namespace covnoise {

void print_study(const std::string& table, const std::vector<std::filesystem::path>& paths) {
  std::printf("%s\n", table.c_str());
  for (const auto& path : paths) std::printf("%s\n", path.c_str());
  if (!plot::png_available()) std::puts(kNoPng);
}

}  // namespace covnoise
