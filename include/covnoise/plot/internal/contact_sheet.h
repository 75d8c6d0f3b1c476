#pragma once
#include "covnoise/plot/internal/image.h"

#include <string>
#include <vector>

namespace covnoise::plot {

/// Images of one size in labelled rows.
struct ContactSheet {
  struct Row {
    std::string name;
    std::vector<Image> images;
  };
  std::string title, subtitle;
  std::vector<Row> rows;
};

std::string to_svg(const ContactSheet& sheet);
/// The bytes of a PNG; an Error if png_available() is false.
std::string to_png(const ContactSheet& sheet);

}  // namespace covnoise::plot
