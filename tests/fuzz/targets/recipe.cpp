#include "covnoise/train/config.h"

#include "fuzz.h"

FUZZ_TARGET(recipe, 2048) { covnoise::load_recipe(input, "input", {}); }
