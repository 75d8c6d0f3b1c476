#pragma once
#include "datasets/formats/image_file.h"

#include <cstdint>
#include <string>

namespace covnoise {

/// Decodes a WebP file in memory to three channels; without libwebp, an Error that says so.
Image decode_webp(const std::string& bytes, const std::string& where, std::int64_t most_pixels);

}  // namespace covnoise
