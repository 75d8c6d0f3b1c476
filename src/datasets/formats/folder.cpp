#include "datasets/formats/folder.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/counted.h"
#include "covnoise/core/internal/digest.h"
#include "datasets/formats/folder_images.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using Scan = std::vector<ScannedImage>;

/// All images that cannot be read, in one line.
void refuse_bad_images(const fs::path& root, const Scan& scan) {
  constexpr std::size_t kMost = 100;
  std::vector<std::string> problems;
  for (const auto& image : scan)
    if (!image.problem.empty()) problems.push_back(image.problem);
  if (problems.empty()) return;
  const std::size_t count = problems.size();
  problems.resize(std::min(count, kMost));
  throw Error(fmt::format("{}: {} of {} image files cannot be used: {}{}", root.string(), count, scan.size(),
                          fmt::join(problems, "; "), count > kMost ? fmt::format("; and {} more", count - kMost) : ""));
}

void refuse_several_sizes(const fs::path& root, const Scan& scan, const std::vector<ImageFile>& files, const Fit& fit) {
  constexpr std::size_t kMost = 4;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> by_size;
  for (std::size_t i = 0; i < scan.size(); ++i) by_size[{scan[i].height, scan[i].width}].push_back(i);
  if (by_size.size() == 1) return;
  std::vector<std::string> sizes;
  for (const auto& [size, members] : by_size) {
    if (sizes.size() == kMost) break;
    sizes.push_back(fmt::format("{}x{} ({}, such as {})", size.first, size.second, counted(members.size(), "image"),
                                files[members.front()].path.string()));
  }
  throw Error(
      fmt::format("{}: images of {} sizes (height x width): {}{}; {}", root.string(), by_size.size(),
                  fmt::join(sizes, ", "), by_size.size() > kMost ? ", ..." : "",
                  fit.resize > 0 ? "set data.crop as well" : "set data.resize and data.crop, for example to 32"));
}

std::vector<std::string> notes_of(const fs::path& root, const FolderFiles& files) {
  std::vector<std::string> notes;
  if (!files.ignored.empty())
    notes.push_back(fmt::format(
        "{}: ignored {} no image, such as {}", root.string(),
        files.ignored.size() == 1 ? "1 entry that is" : fmt::format("{} entries that are", files.ignored.size()),
        files.ignored.front().string()));
  if (files.val_unused) notes.push_back(fmt::format("{}: test/ is the test set; val/ is not used", root.string()));
  return notes;
}

/// Grey planes count for each of the channels.
ChannelStatistics statistics(const Scan& train, std::int64_t channels, std::int64_t area) {
  std::vector<ChannelSums> sums(static_cast<std::size_t>(channels));
  for (const auto& image : train)
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c].add(image.sums[image.channels == 1 ? 0 : c]);
  return statistics_of(sums, static_cast<double>(train.size()) * static_cast<double>(area));
}

at::Tensor labels_of(const std::vector<ImageFile>& files) {
  at::Tensor labels = at::empty({static_cast<std::int64_t>(files.size())}, at::kLong);
  std::transform(files.begin(), files.end(), labels.data_ptr<std::int64_t>(),
                 [](const auto& file) { return file.label; });
  return labels;
}

/// Moves the scanned pixels into one tensor.
Dataset in_memory(const std::vector<ImageFile>& files, Scan scan, std::int64_t channels) {
  const std::int64_t area = scan.front().height * scan.front().width;
  Dataset set{
      at::empty({static_cast<std::int64_t>(scan.size()), channels, scan.front().height, scan.front().width}, at::kByte),
      labels_of(files)};
  auto* pixels = set.images.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < scan.size(); ++i) {
    repeat_planes(scan[i].planes, channels, area, pixels + static_cast<std::int64_t>(i) * channels * area);
    drop_pixels(scan[i]);
  }
  return set;
}

Dataset on_disk(const std::vector<ImageFile>& files, Scan scan, std::int64_t channels, const Fit& fit) {
  for (auto& image : scan) drop_pixels(image);
  return {{}, labels_of(files), std::make_shared<FolderImages>(files, std::move(scan), channels, fit)};
}

std::string digest_of(const Scan& scan, const std::vector<ImageFile>& files, std::int64_t channels) {
  std::string text = fmt::format("{} channels\n", channels);
  for (std::size_t i = 0; i < scan.size(); ++i) text += fmt::format("{} {}\n", scan[i].digest, files[i].label);
  return sha256_hex(text);
}

}  // namespace

DataSource read_folder(const fs::path& root, const FolderOptions& options) {
  const FolderFiles files = list_folder(root);
  std::vector<ImageFile> all = files.train;
  all.insert(all.end(), files.test.begin(), files.test.end());
  const double most_bytes = options.memory * (1 << 30);
  Scan scan = scan_images(all, options.fit, most_bytes);
  refuse_bad_images(root, scan);
  refuse_several_sizes(root, scan, all, options.fit);
  const auto colour = [](const ScannedImage& image) { return image.channels == 3; };
  const std::int64_t channels = std::any_of(scan.begin(), scan.end(), colour) ? 3 : 1;
  const std::int64_t area = scan.front().height * scan.front().width;

  DataSource source;
  source.name = "folder:" + root.string();
  source.classes = files.classes;
  source.sorted_by_class = true;
  source.notes = notes_of(root, files);
  source.digest = digest_of(scan, all, channels);
  const auto border = std::make_move_iterator(scan.begin() + static_cast<std::ptrdiff_t>(files.train.size()));
  Scan train(std::make_move_iterator(scan.begin()), border), test(border, std::make_move_iterator(scan.end()));
  const ChannelStatistics of_train = statistics(train, channels, area);
  source.mean = of_train.mean;
  source.std = of_train.std;
  const double bytes = static_cast<double>(all.size()) * static_cast<double>(channels * area);
  const bool fits = bytes <= most_bytes;
  if (!fits)
    source.notes.push_back(
        fmt::format("{}: {:.2f} GiB of images are more than data.memory = {:g} GiB: they are read from "
                    "disk while training",
                    root.string(), bytes / (1 << 30), options.memory));
  source.train = fits ? in_memory(files.train, std::move(train), channels)
                      : on_disk(files.train, std::move(train), channels, options.fit);
  source.test = fits ? in_memory(files.test, std::move(test), channels)
                     : on_disk(files.test, std::move(test), channels, options.fit);
  return source;
}

}  // namespace covnoise
