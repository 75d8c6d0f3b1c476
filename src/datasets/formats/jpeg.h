#pragma once
#include "datasets/formats/image_file.h"

#include <cstdint>
#include <string>

namespace covnoise {

/// Decodes a JPEG file in memory; without libjpeg, an Error that says so.
Image decode_jpeg(const std::string& bytes, const std::string& where, std::int64_t most_pixels);

}  // namespace covnoise
