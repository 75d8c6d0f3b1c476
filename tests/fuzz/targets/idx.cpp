#include "datasets/formats/idx.h"

#include "fuzz.h"

FUZZ_TARGET(idx, 1024) {
  const bool images = covnoise::fuzz::take_choice(input) % 2 == 0;
  const auto& file = covnoise::fuzz::input_file(input);
  if (images) covnoise::read_idx_images(file);
  if (!images) covnoise::read_idx_labels(file, 10);
}
