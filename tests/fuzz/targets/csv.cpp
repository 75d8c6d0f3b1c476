#include "covnoise/core/internal/csv.h"

#include "covnoise/core/error.h"
#include "fuzz.h"

FUZZ_TARGET(csv, 1024) {
  const bool rows = covnoise::fuzz::take_choice(input) % 2 == 0;
  const auto& file = covnoise::fuzz::input_file(input);
  if (rows) covnoise::read_csv_rows(file);
  if (!rows) covnoise::read_csv_matrix(file);
}
