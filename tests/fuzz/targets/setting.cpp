#include "covnoise/core/error.h"
#include "covnoise/train/config.h"

#include "fuzz.h"

// KEY=VALUE of the command line: the message repeats the setting instead of a file.
FUZZ_TARGET(setting, 256) {
  try {
    covnoise::load_config({}, {std::string(input)});
  } catch (const covnoise::Error&) {
  }
}
