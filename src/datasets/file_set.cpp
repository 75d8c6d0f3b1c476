#include "datasets/file_set.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/data/internal/digest.h"
#include "datasets/formats/cifar.h"
#include "datasets/formats/idx.h"

#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

void expect_shape(const at::Tensor& images, const FileSet& set, const fs::path& file) {
  const DataSummary& s = set.summary;
  if (images.size(1) == s.channels && images.size(2) == s.height && images.size(3) == s.width) return;
  throw Error(fmt::format("{}: images of {}x{}x{}, but those of {} have {}x{}x{}", file.string(), images.size(1),
                          images.size(2), images.size(3), s.name, s.channels, s.height, s.width));
}

/// Reads one file on its own.
void parse(const Layout& layout, std::size_t index, const fs::path& file, const FileSet& set) {
  if (layout.form != Layout::Form::kIdx) {
    read_files(layout, {file}, set);
  } else if (index == 0) {
    expect_shape(read_idx_images(file), set, file);
  } else {
    read_idx_labels(file, set.summary.classes);
  }
}

std::string problem_of(const Layout& layout, std::size_t index, const KnownFile& known, const fs::path& file,
                       const FileSet& set) {
  try {
    parse(layout, index, file, set);
    const std::string& expected = file.filename() == known.name ? known.sha256 : known.packed_sha256;
    if (expected.empty()) return "";
    const std::string sha256 = sha256_hex_of_file(file);
    return sha256 == expected ? "" : fmt::format("{}: SHA-256 is {}, expected {}", file.string(), sha256, expected);
  } catch (const Error& error) {
    return error.what();
  }
}

DataSource read_source(const FoundFiles& found, const FileSet& set) {
  DataSource source;
  source.name = set.summary.name;
  source.classes = set.classes;
  source.augment = set.augment;
  source.train = read_files(*found.layout, found.train, set);
  source.test = read_files(*found.layout, found.test, set);
  return source;
}

/// For the files whose checksum is not known: what is wrong with the images and labels of all files together.
std::string problem_of_all(const FoundFiles& found, const FileSet& set) {
  if (set.digest.empty() || data_digest(read_source(found, set)) == set.digest) return "";
  return fmt::format("{}: the images and labels are not those of {}", found.folder.string(), set.summary.name);
}

/// The digest of the images and labels decides, for every form of the files; the checksums of the files say which one
/// is damaged. `source` keeps the digest, which a run records.
void refuse_damaged_files(const FileSet& set, const DataOptions& options, DataSource& source) {
  source.digest = data_digest(source);
  if (source.digest == set.digest) return;
  for (const FileReport& report : verify_files(set, options)) {
    require(report.problem.empty(),
            fmt::format("{}; the file is not the published one: remove it and run `covnoise data fetch {}`, or give "
                        "another --data-dir",
                        report.problem, set.summary.name));
  }
}

}  // namespace

Dataset read_files(const Layout& layout, const std::vector<fs::path>& files, const FileSet& set) {
  const std::int64_t classes = set.summary.classes;
  if (layout.form == Layout::Form::kCifarBinary) return read_cifar_binary(files, classes);
  if (layout.form == Layout::Form::kCifarPython) return read_cifar_python(files, classes);
  Dataset data = read_idx(files.front(), files.back(), classes);
  expect_shape(data.images, set, files.front());
  return data;
}

DataSource load_files(const FileSet& set, const DataOptions& options) {
  const FoundFiles found = require_files(set, options);
  DataSource source = read_source(found, set);
  refuse_damaged_files(set, options, source);
  return source;
}

std::vector<FileReport> verify_files(const FileSet& set, const DataOptions& options) {
  const FoundFiles found = require_files(set, options);
  const Layout& layout = *found.layout;
  std::vector<FileReport> reports;
  for (std::size_t i = 0; i < found.train.size(); ++i) {
    reports.push_back({found.train[i], problem_of(layout, i, layout.train[i], found.train[i], set)});
  }
  for (std::size_t i = 0; i < found.test.size(); ++i) {
    reports.push_back({found.test[i], problem_of(layout, i, layout.test[i], found.test[i], set)});
  }
  const bool good =
      std::all_of(reports.begin(), reports.end(), [](const auto& report) { return report.problem.empty(); });
  if (good) reports.front().problem = problem_of_all(found, set);
  return reports;
}

}  // namespace covnoise
