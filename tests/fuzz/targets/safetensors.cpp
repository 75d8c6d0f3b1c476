#include "covnoise/core/safetensors.h"

#include "fuzz.h"

// What is accepted is written and read again as the same.
FUZZ_TARGET(safetensors, 2048) {
  using namespace covnoise;
  const std::string once = encode_safetensors(decode_safetensors(input, "input"));
  fuzz::expect(encode_safetensors(decode_safetensors(once, "input")) == once, "another file after a round trip");
}
