#include "covnoise/train/internal/run_records.h"

#include "covnoise/core/internal/file.h"
#include "covnoise/core/internal/file_lock.h"
#include "covnoise/core/internal/gzip.h"
#include "covnoise/core/internal/json.h"

#include <algorithm>
#include <map>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kLargestRecordFile = std::uint64_t{1} << 26;

std::string text_of(const fs::path& file) {
  return fs::exists(file) ? gunzip(read_file(file, kLargestRecordFile), file.string()) : "";
}

std::vector<StoredRun> parse_records(const fs::path& file, const std::string& text) {
  std::vector<StoredRun> runs;
  for (std::size_t start = 0, end; start < text.size(); start = end + 1) {
    end = std::min(text.find('\n', start), text.size());
    runs.emplace_back(file, runs.size() + 1, parse_json(std::string_view(text).substr(start, end - start)));
  }
  return runs;
}

}  // namespace

bool is_record_file(const fs::path& path) {
  const std::string name = path.filename().string(), ending = kRecordFileEnding;
  return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
}

std::vector<StoredRun> read_records(const fs::path& file) { return parse_records(file, text_of(file)); }

void update_records(const fs::path& file, const std::vector<Json>& records) {
  create_folders(file.parent_path());
  const auto lock = FileLock::wait_for(file.parent_path());  // another command may have records of the same row
  const std::string before = text_of(file);
  std::map<std::string, std::string> lines;  // by name
  for (const auto& run : parse_records(file, before)) lines[run.name()] = run.record({}).dump();
  for (const auto& record : records) lines[record.at("run").get<std::string>()] = record.dump();
  std::string after;
  for (const auto& [name, line] : lines) after += line + "\n";
  if (after == before) return;
  write_file_synced(file, gzip(after));
}

}  // namespace covnoise
