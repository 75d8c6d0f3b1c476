#include "datasets/formats/folder.h"

#include "covnoise/core/error.h"
#include "datasets/formats/image_file.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace covnoise {
namespace {

namespace fs = std::filesystem;

struct Example {
  fs::path file;
  std::int64_t label;
};

/// Entries of a folder, sorted by name, without hidden ones.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().front() != '.') paths.push_back(it->path());
  }
  if (error) throw Error(fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::string> class_names(const fs::path& split) {
  std::vector<std::string> names;
  for (const fs::path& path : entries(split)) {
    if (!fs::is_directory(path)) {
      throw Error(
          fmt::format("{}: not a folder; {} must hold one folder of images per class", path.string(), split.string()));
    }
    names.push_back(path.filename().string());
  }
  if (names.size() < 2) {
    throw Error(fmt::format("{}: {} class folders; at least 2 are needed", split.string(), names.size()));
  }
  return names;
}

void expect_same_classes(const fs::path& root, const std::vector<std::string>& train,
                         const std::vector<std::string>& test) {
  std::vector<std::string> odd;
  std::set_symmetric_difference(train.begin(), train.end(), test.begin(), test.end(), std::back_inserter(odd));
  if (odd.empty()) return;
  const bool in_train = std::binary_search(train.begin(), train.end(), odd.front());
  throw Error(fmt::format("{}: class '{}' is in {} but not in {}: both must have the same classes", root.string(),
                          odd.front(), in_train ? "train" : "test", in_train ? "test" : "train"));
}

bool has_image_extension(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

std::vector<Example> list_examples(const fs::path& split, const std::vector<std::string>& classes) {
  std::vector<Example> examples;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const fs::path folder = split / classes[label];
    const std::size_t before = examples.size();
    for (const fs::path& file : entries(folder)) {
      if (!has_image_extension(file)) throw Error(fmt::format("{}: not a PNG or JPEG file", file.string()));
      examples.push_back({file, static_cast<std::int64_t>(label)});
    }
    if (examples.size() == before) throw Error(fmt::format("{}: no images", folder.string()));
  }
  return examples;
}

void expect_like(const Image& image, const Image& model, const fs::path& file, const fs::path& model_file) {
  const auto shape = [](const Image& i) { return fmt::format("{}x{}x{}", i.channels, i.height, i.width); };
  if (shape(image) == shape(model)) return;
  throw Error(
      fmt::format("{}: an image of {} (channels x height x width), but {} has {}: all images must have the same size",
                  file.string(), shape(image), model_file.string(), shape(model)));
}

/// Interleaved pixels to planes [C, H, W].
void split_channels(const Image& image, std::uint8_t* planes) {
  const std::int64_t area = image.width * image.height;
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t i = 0; i < area; ++i) planes[c * area + i] = image.pixels[i * image.channels + c];
  }
}

/// Decodes in parallel; if several files are bad, reports the first one.
Dataset read_examples(const std::vector<Example>& examples, const Image& model, const fs::path& model_file) {
  const auto count = static_cast<std::int64_t>(examples.size());
  Dataset set{at::empty({count, model.channels, model.height, model.width}, at::kByte), at::empty({count}, at::kLong)};
  auto* pixels = set.images.data_ptr<std::uint8_t>();
  auto* labels = set.labels.data_ptr<std::int64_t>();
  std::vector<std::optional<Error>> errors(examples.size());
  at::parallel_for(0, count, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        const Image image = read_image(examples[i].file);
        expect_like(image, model, examples[i].file, model_file);
        split_channels(image, pixels + i * static_cast<std::int64_t>(model.pixels.size()));
        labels[i] = examples[i].label;
      } catch (const Error& error) {
        errors[i] = error;
      }
    }
  });
  for (const auto& error : errors) {
    if (error) throw Error(*error);
  }
  return set;
}

}  // namespace

DataSource read_folder(const fs::path& root) {
  for (const char* split : {"train", "test"}) {
    if (!fs::is_directory(root / split)) {
      throw Error(fmt::format("{}: not a folder; folder:{} needs train/ and test/ with one folder per class",
                              (root / split).string(), root.string()));
    }
  }
  DataSource source;
  source.name = "folder:" + root.string();
  source.classes = class_names(root / "train");
  expect_same_classes(root, source.classes, class_names(root / "test"));
  const std::vector<Example> train = list_examples(root / "train", source.classes);
  const std::vector<Example> test = list_examples(root / "test", source.classes);
  const Image model = read_image(train.front().file);
  source.train = read_examples(train, model, train.front().file);
  source.test = read_examples(test, model, train.front().file);
  return source;
}

}  // namespace covnoise
