#pragma once
#include "covnoise/train/internal/stored_run.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Record files hold what is kept of many runs, for a repository: gzip-compressed JSON, one line per run, ordered by
/// name (StoredRun::record; `zcat FILE | jq` reads them, too).
namespace covnoise {

constexpr const char* kRecordFileEnding = ".jsonl.gz";
bool is_record_file(const std::filesystem::path& path);

/// The runs of a record file; none if there is no such file. An Error says in which line it is damaged.
std::vector<StoredRun> read_records(const std::filesystem::path& file);

/// Puts records into the file, in place of those of the same name, and leaves the others as they are. The file is
/// replaced as a whole, and only if its content changes. Processes that update records in one folder wait for each
/// other.
void update_records(const std::filesystem::path& file, const std::vector<nlohmann::ordered_json>& records);

}  // namespace covnoise
