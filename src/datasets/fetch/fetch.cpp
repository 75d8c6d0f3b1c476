#include "covnoise/core/error.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "datasets/fetch/download.h"
#include "datasets/file_set.h"
#include "datasets/formats/tar.h"

#include <fmt/format.h>

#include <system_error>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using Kind = FetchEvent::Kind;

std::uint64_t size_or_zero(const fs::path& path) {
  std::error_code error;
  const std::uint64_t size = fs::file_size(path, error);
  return error ? 0 : size;
}

bool is_good(const fs::path& path, const std::string& sha256) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && sha256_hex_of_file(path) == sha256;
}

/// Downloads from one site and checks the checksum. If a file resumed from an earlier try is wrong, it is deleted and
/// downloaded once more from the start.
void fetch_from(const std::string& site, const Download& file, const fs::path& part, const FetchOptions& options) {
  const std::string url = site + file.file;
  options.progress({Kind::kStarted, file.file, url, size_or_zero(part), 0});
  for (;;) {
    const bool resumed = size_or_zero(part) > 0;
    download(url, part, [&](std::uint64_t done, std::uint64_t total) {
      options.progress({Kind::kBytes, file.file, "", done, total});
    });
    const std::string sha256 = sha256_hex_of_file(part);
    if (sha256 == file.sha256) return;
    fs::remove(part);
    if (!resumed) {
      throw Error(
          fmt::format("{}: SHA-256 is {}, expected {}: the download was deleted; try another site with --mirror", url,
                      sha256, file.sha256));
    }
  }
}

void fetch_part(const std::vector<std::string>& sites, const Download& file, const fs::path& part,
                const FetchOptions& options) {
  for (std::size_t i = 0;; ++i) {
    try {
      return fetch_from(sites[i], file, part, options);
    } catch (const Error& error) {
      if (i + 1 == sites.size()) {
        const std::uint64_t kept = size_or_zero(part);
        if (kept == 0) {
          std::error_code ignored;
          fs::remove(part, ignored);
          throw;
        }
        throw Error(fmt::format("{}; {} bytes are kept in {}: repeat the command to resume", error.what(), kept,
                                part.string()));
      }
      options.progress({Kind::kFailed, file.file, error.what(), 0, 0});
    }
  }
}

std::vector<KnownFile> all_files(const Layout& layout) {
  std::vector<KnownFile> files = layout.train;
  files.insert(files.end(), layout.test.begin(), layout.test.end());
  return files;
}

/// Unpacks to temporary names, and renames when all checksums are correct.
void install_archive(const fs::path& archive, const Layout& layout, const fs::path& folder) {
  std::vector<TarMember> members;
  const std::vector<KnownFile> files = all_files(layout);
  for (const KnownFile& file : files)
    members.push_back({layout.folder + "/" + file.name, folder / (file.name + ".part")});
  unpack_tar(archive, members);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (is_good(members[i].target, files[i].sha256)) continue;
    throw Error(fmt::format("{}: '{}' has the wrong SHA-256", archive.string(), members[i].name));
  }
  for (std::size_t i = 0; i < files.size(); ++i) rename_synced(members[i].target, folder / files[i].name);
  fs::remove(archive);
}

bool archive_is_installed(const Layout& layout, const fs::path& folder) {
  for (const KnownFile& file : all_files(layout)) {
    if (!is_good(folder / file.name, file.sha256)) return false;
  }
  return true;
}

void fetch_one(const FileSet& set, const Download& file, const std::vector<std::string>& sites,
               const FetchOptions& options) {
  const Layout& layout = set.layouts.front();
  const fs::path folder = options.directory / layout.folder;
  const fs::path target = file.archive ? options.directory / file.file : folder / file.file;
  if (file.archive ? archive_is_installed(layout, folder) : is_good(target, file.sha256)) {
    return options.progress({Kind::kPresent, file.file, "", 0, 0});
  }
  const fs::path part = target.string() + ".part";
  if (!(file.archive && is_good(target, file.sha256))) {
    fetch_part(sites, file, part, options);
    rename_synced(part, target);
  }
  if (file.archive) install_archive(target, layout, folder);
  options.progress({Kind::kInstalled, file.file, "", 0, 0});
}

}  // namespace

void fetch_files(const FileSet& set, const FetchOptions& options) {
  std::vector<std::string> sites = set.sites;
  if (!options.mirror.empty()) sites = {options.mirror.back() == '/' ? options.mirror : options.mirror + "/"};
  const fs::path folder = options.directory / set.layouts.front().folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  for (const Download& file : set.downloads) fetch_one(set, file, sites, options);
}

}  // namespace covnoise
