#include "experiment/paper/variants.h"

#include "fuzz.h"

FUZZ_TARGET(variants, 2048) { covnoise::paper::read_variant_file(covnoise::fuzz::input_file(input)); }
