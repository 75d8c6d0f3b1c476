#pragma once
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace covnoise {

/// A table for spreadsheets and scripts: a header, then rows of numbers and words. Numbers are written so that reading
/// them restores them exactly.
class CsvTable {
 public:
  explicit CsvTable(const std::vector<std::string>& header);

  /// One cell for each column.
  template <class... Cells>
  void add(const Cells&... cells) {
    add_row({fmt::format("{}", cells)...});
  }
  void add_row(const std::vector<std::string>& cells);

  const std::string& text() const { return text_; }
  void write(const std::filesystem::path& path) const;  ///< atomically

 private:
  std::size_t columns_;
  std::string text_;
};

/// The rows of a table that CsvTable wrote, cells by the name of their column. An Error gives the file and the row.
std::vector<std::map<std::string, std::string>> read_csv_rows(const std::filesystem::path& path);

/// Rows of numbers separated by commas, semicolons or blanks, as double [rows, columns]. Empty lines, lines that begin
/// with '#' and a first line of column names are skipped. An Error gives the file and the line.
at::Tensor read_csv_matrix(const std::filesystem::path& path);

}  // namespace covnoise
