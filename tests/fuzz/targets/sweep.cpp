#include "covnoise/experiment/sweep.h"

#include "fuzz.h"

FUZZ_TARGET(sweep, 2048) { covnoise::read_sweep_file(covnoise::fuzz::input_file(input)); }
