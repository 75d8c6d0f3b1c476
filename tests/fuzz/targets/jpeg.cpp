#include "datasets/formats/image_file.h"

#include "fuzz.h"

FUZZ_TARGET(jpeg, 2048) { covnoise::decode_image(std::string(input), "input"); }
