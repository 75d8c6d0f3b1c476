#include "experiment/paper/item_file.h"

#include "fuzz.h"

// The results of an item of the paper, and its tables.
FUZZ_TARGET(result, 2048) {
  using namespace covnoise;
  const Json item = paper::read_item(fuzz::input_file(input));
  paper::has_comparisons(item);
  for (const auto& table : item.at("tables")) Table::from_json(table).to_markdown();
}
