#pragma once
#include "covnoise/core/internal/csv.h"
#include "covnoise/plot/figure.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// What a study leaves in its folder: tables, numbers and figures, each written whole, and their paths in that order.
class StudyFiles {
 public:
  explicit StudyFiles(std::filesystem::path folder);  ///< creates it where it is missing

  void add(const std::string& name, const CsvTable& table);               ///< name.csv
  void add(const std::string& name, const nlohmann::ordered_json& json);  ///< name.json
  void add(const std::string& name, const plot::Figure& figure);          ///< name.svg and, where available, name.png

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> paths_;
};

}  // namespace covnoise
