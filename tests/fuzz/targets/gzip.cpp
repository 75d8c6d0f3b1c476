#include "covnoise/core/internal/gzip.h"

#include "fuzz.h"

FUZZ_TARGET(gzip, 1024) { covnoise::gunzip(input, "input", std::size_t{1} << 20); }
