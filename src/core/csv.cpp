#include "covnoise/core/internal/csv.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

namespace covnoise {
namespace {

constexpr std::uint64_t kLargestTable = std::uint64_t{1} << 28;

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\n") == std::string::npos) return cell;
  std::string text = "\"";
  for (const char c : cell) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

/// Cells by row; a cell in quotes may hold commas, line breaks and doubled quotes.
std::vector<std::vector<std::string>> split_cells(const std::string& text, const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  bool row_ended = true, in_quotes = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (row_ended) rows.emplace_back(1);
    row_ended = false;
    const char c = text[i];
    if (in_quotes && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      rows.back().back() += text[++i];
    } else if (c == '"') {
      in_quotes = !in_quotes;
    } else if (in_quotes || (c != ',' && c != '\n')) {
      rows.back().back() += c;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else {
      row_ended = true;
    }
  }
  require(!in_quotes, fmt::format("{}, row {}: the quotes are not closed", name, rows.size()));
  return rows;
}

/// False if a word is not a number.
bool parse_numbers(std::string line, std::vector<double>& out) {
  for (char& c : line) c = c == ',' || c == ';' ? ' ' : c;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    char* end = nullptr;
    out.push_back(std::strtod(word.c_str(), &end));
    if (end != word.c_str() + word.size()) return false;
  }
  return true;
}

}  // namespace

CsvTable::CsvTable(const std::vector<std::string>& header) : columns_(header.size()) { add_row(header); }

void CsvTable::add_row(const std::vector<std::string>& cells) {
  TORCH_INTERNAL_ASSERT(cells.size() == columns_, "a CSV row of ", cells.size(), " cells, ", columns_, " columns");
  for (std::size_t i = 0; i < cells.size(); ++i) text_ += (i == 0 ? "" : ",") + quoted(cells[i]);
  text_ += '\n';
}

void CsvTable::write(const std::filesystem::path& path) const { write_file_synced(path, text_); }

std::vector<std::map<std::string, std::string>> read_csv_rows(const std::filesystem::path& path) {
  const auto cells = split_cells(read_file(path, kLargestTable), path.string());
  std::vector<std::map<std::string, std::string>> rows;
  if (!cells.empty()) {
    const std::set<std::string> names(cells[0].begin(), cells[0].end());
    require(names.size() == cells[0].size(), fmt::format("{}, row 1: two columns have the same name", path.string()));
  }
  for (std::size_t i = 1; i < cells.size(); ++i) {
    require(cells[i].size() == cells[0].size(), fmt::format("{}, row {}: {} cells, the header has {}", path.string(),
                                                            i + 1, cells[i].size(), cells[0].size()));
    auto& row = rows.emplace_back();
    for (std::size_t j = 0; j < cells[i].size(); ++j) row[cells[0][j]] = cells[i][j];
  }
  return rows;
}

at::Tensor read_csv_matrix(const std::filesystem::path& path) {
  std::istringstream lines(read_file(path, kLargestTable));
  std::vector<double> values;
  std::size_t columns = 0;
  std::int64_t rows = 0;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r,;") == std::string::npos || line[0] == '#') continue;
    std::vector<double> row;
    if (!parse_numbers(line, row)) {
      if (number == 1) continue;  // column names
      throw Error(
          fmt::format("{}, line {}: not a number; each line must hold one row of the matrix", path.string(), number));
    }
    if (columns == 0) columns = row.size();
    if (row.size() != columns) {
      throw Error(fmt::format("{}, line {}: a row of length {}, the rows before it have length {}", path.string(),
                              number, row.size(), columns));
    }
    for (const double value : row) {
      if (!std::isfinite(value)) throw Error(fmt::format("{}, line {}: a value is not finite", path.string(), number));
    }
    values.insert(values.end(), row.begin(), row.end());
    ++rows;
  }
  if (rows == 0) throw Error(fmt::format("{}: no numbers in this file", path.string()));
  return at::from_blob(values.data(), {rows, static_cast<std::int64_t>(columns)}, at::kDouble).clone();
}

}  // namespace covnoise
