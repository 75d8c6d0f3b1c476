#pragma once
#include "covnoise/core/internal/csv.h"
#include "covnoise/plot/figure.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// Writes the files of a study into its folder: tables, numbers and figures. Lists their paths in the order of writing.
class StudyFiles {
 public:
  /// Creates the folder if it does not exist. `formats` are those of the figures.
  explicit StudyFiles(std::filesystem::path folder, plot::Formats formats = plot::Formats::kSvgAndPng);

  void add(const std::string& name, const CsvTable& table);               ///< name.csv
  void add(const std::string& name, const nlohmann::ordered_json& json);  ///< name.json
  void add(const std::string& name, const plot::Figure& figure);          ///< name.svg, name.png

  const std::vector<std::filesystem::path>& paths() const { return paths_; }

 private:
  std::filesystem::path folder_;
  plot::Formats formats_;
  std::vector<std::filesystem::path> paths_;
};

}  // namespace covnoise
