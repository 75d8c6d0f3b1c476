#include "covnoise/plot/internal/study_files.h"

#include "covnoise/core/internal/file.h"

namespace covnoise {

StudyFiles::StudyFiles(std::filesystem::path folder, plot::Formats formats)
    : folder_(std::move(folder)), formats_(formats) {
  create_folders(folder_);
}

void StudyFiles::add(const std::string& name, const CsvTable& table) {
  paths_.push_back(folder_ / (name + ".csv"));
  table.write(paths_.back());
}

void StudyFiles::add(const std::string& name, const nlohmann::ordered_json& json) {
  paths_.push_back(folder_ / (name + ".json"));
  write_file_synced(paths_.back(), json.dump(2) + "\n");
}

void StudyFiles::add(const std::string& name, const plot::Figure& figure) {
  for (const auto& path : plot::save_figure(figure, folder_ / name, formats_)) paths_.push_back(path);
}

}  // namespace covnoise
