#include "covnoise/report/data_preview.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/plot/figure.h"
#include "covnoise/plot/internal/contact_sheet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace covnoise {
namespace {

/// A uint8 image [C, H, W] with one channel or three.
plot::Image to_image(const at::Tensor& image) {
  const at::Tensor pixels = image.expand({3, image.size(1), image.size(2)}).permute({1, 2, 0}).contiguous();
  const auto* first = pixels.data_ptr<std::uint8_t>();
  return {static_cast<int>(image.size(2)), static_cast<int>(image.size(1)), {first, first + pixels.numel()}};
}

plot::ContactSheet::Row row_of_class(const Dataset& set, std::int64_t label, const std::string& name,
                                     std::int64_t most) {
  plot::ContactSheet::Row row{name, {}};
  const at::Tensor members = at::nonzero(set.labels == label).flatten();
  for (std::int64_t i = 0; i < std::min(most, members.size(0)); ++i) {
    row.images.push_back(to_image(set.image(members[i].item<std::int64_t>())));
  }
  return row;
}

plot::ContactSheet sheet_of(const DataSource& source, const Dataset& set, const PreviewOptions& options) {
  const auto classes = static_cast<std::int64_t>(source.classes.size());
  const std::int64_t rows = std::min(classes, options.most_classes);
  const auto sizes = set.sizes();
  std::string facts = fmt::format("{}: {} images of {}x{}x{}, {} classes", options.split, sizes[0], sizes[1], sizes[2],
                                  sizes[3], classes);
  if (rows < classes) facts += fmt::format(" (the first {} shown)", rows);
  plot::ContactSheet sheet{source.name, facts, {}};
  for (std::int64_t label = 0; label < rows; ++label) {
    sheet.rows.push_back(row_of_class(set, label, source.classes[static_cast<std::size_t>(label)], options.per_class));
  }
  return sheet;
}

}  // namespace

std::filesystem::path write_preview(const DataSource& source, const std::filesystem::path& file,
                                    const PreviewOptions& options) {
  if (options.split != "train" && options.split != "test") {
    throw Error(fmt::format("unknown split '{}'; known: train, test", options.split));
  }
  const auto sheet = sheet_of(source, options.split == "train" ? source.train : source.test, options);
  const bool png = file.extension() != ".svg" && plot::png_available();
  auto path = png ? file : std::filesystem::path(file).replace_extension(".svg");
  write_file_synced(path, png ? plot::to_png(sheet) : plot::to_svg(sheet));
  return path;
}

}  // namespace covnoise
