#include "covnoise/train/config.h"

#include "fuzz.h"

// What is accepted is written and read again as the same.
FUZZ_TARGET(config, 2048) {
  using namespace covnoise;
  const std::string once = to_toml(parse_config(input, "input"));
  fuzz::expect(to_toml(parse_config(once, "input")) == once, "another configuration after a round trip");
}
