#pragma once
#include "covnoise/data/dataset.h"
#include "covnoise/datasets/catalog.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

struct KnownFile {
  std::string name;
  std::string sha256;         // empty: not known; the digest of the set decides
  std::string packed_sha256;  // of NAME.gz, which may be there instead; empty: no such form
};

/// One form of a data set on disk.
struct Layout {
  enum class Form { kIdx, kCifarBinary, kCifarPython };
  Form form;
  std::string folder;                  // below a searched folder
  std::vector<KnownFile> train, test;  // kIdx: images, labels
};

struct Download {
  std::string file, sha256;
  bool archive = false;  // a tar.gz with the files of the first layout; otherwise one of them, gzipped
};

/// A data set in files of known names and checksums.
struct FileSet {
  DataSummary summary;
  std::vector<std::string> classes;
  bool augment = false;
  std::vector<Layout> layouts;     // in order of preference; `fetch` creates the first
  std::vector<std::string> sites;  // base URLs, each ending in '/'
  std::vector<Download> downloads;
  std::string digest;  // data_digest of the whole set; empty: not known
};

/// mnist, fashion-mnist, cifar10, cifar100.
const std::vector<FileSet>& file_sets();

/// One download per file of a layout: NAME.gz.
std::vector<Download> packed_files(const Layout& layout);

/// The files of one layout, all found.
struct FoundFiles {
  const Layout* layout;
  std::filesystem::path folder;
  std::vector<std::filesystem::path> train, test;
};
/// Data sets with the same file names, like MNIST and Fashion-MNIST, are distinguished by their folder, or else by a
/// checksum among those of `known`.
std::optional<FoundFiles> find_files(const FileSet& set, const DataOptions& options,
                                     const std::vector<FileSet>& known = file_sets());
/// The same; an Error with the folders searched if nothing was found.
FoundFiles require_files(const FileSet& set, const DataOptions& options);

Dataset read_files(const Layout& layout, const std::vector<std::filesystem::path>& files, const FileSet& set);
/// Refuses files whose images and labels are not the published ones.
DataSource load_files(const FileSet& set, const DataOptions& options);
std::vector<FileReport> verify_files(const FileSet& set, const DataOptions& options);
void fetch_files(const FileSet& set, const FetchOptions& options);

}  // namespace covnoise
