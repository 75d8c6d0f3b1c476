#pragma once
#include "covnoise/core/internal/csv.h"
#include "experiment/paper/result.h"

namespace covnoise::paper {

/// Last epochs of a cell's finished runs, in 0..1.
struct Accuracies {
  MeanStd test, train, gap;   ///< gap: train - test, in evaluation mode
  std::vector<double> tests;  ///< by seed
  MeanStd weight_norm;
};
Accuracies accuracies_of(const Cell& cell);

/// The item's cell of this row and regime.
const Cell& find_cell(const Context& context, const Row& row, const std::string& regime);

/// One line per run of the item, for programs.
CsvTable run_csv(const Context& context);
Json cell_json(const Cell& cell);

/// How accuracies are given.
extern const char* const kAccuracyNote;

}  // namespace covnoise::paper
