#include "datasets/formats/jpeg.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#ifdef COVNOISE_HAS_JPEG
#include <cstdio>  // jpeglib.h needs FILE

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#endif

namespace covnoise {

#ifdef COVNOISE_HAS_JPEG
namespace {

/// libjpeg reports errors through a callback that must not return: it jumps out.
struct ErrorManager {
  jpeg_error_mgr base;
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr info) {
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  info->err->format_message(info, manager->message);
  std::longjmp(manager->escape, 1);
}

/// libjpeg fills a truncated or damaged image with grey and only warns; here this is an error.
void judge_warning(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) leave(info);
}

/// A progressive file may go over all pixels in thousands of tiny scans; real ones have about ten.
void count_scans(j_common_ptr info) {
  constexpr int kMostScans = 64;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto* manager = reinterpret_cast<ErrorManager*>(info->err);
  std::snprintf(manager->message, sizeof manager->message, "more than %d scans", kMostScans);
  std::longjmp(manager->escape, 1);
}

/// Creates nothing with a destructor after setjmp, so that the jump leaks nothing.
bool decode(jpeg_decompress_struct& info, ErrorManager& manager, jpeg_progress_mgr& progress, const std::string& bytes,
            std::int64_t most_pixels, Image& image) {
  if (setjmp(manager.escape)) return false;
  jpeg_create_decompress(&info);
  info.progress = &progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = info.jpeg_color_space == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  if (std::int64_t{info.image_width} * info.image_height > most_pixels) {
    std::snprintf(manager.message, sizeof manager.message, "%u x %u pixels are too many", info.image_width,
                  info.image_height);
    return false;
  }
  jpeg_start_decompress(&info);
  image.width = info.output_width;
  image.height = info.output_height;
  image.channels = info.output_components;
  const std::size_t line = std::size_t{info.output_width} * static_cast<std::size_t>(info.output_components);
  image.pixels.resize(line * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = image.pixels.data() + line * info.output_scanline;
    jpeg_read_scanlines(&info, &row, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Image decode_jpeg(const std::string& bytes, const std::string& where, std::int64_t most_pixels) {
  Image image;
  jpeg_decompress_struct info{};
  ErrorManager manager{};
  info.err = jpeg_std_error(&manager.base);
  manager.base.error_exit = leave;
  manager.base.emit_message = judge_warning;
  jpeg_progress_mgr progress{};
  progress.progress_monitor = count_scans;
  const bool good = decode(info, manager, progress, bytes, most_pixels, image);
  jpeg_destroy_decompress(&info);
  if (!good) throw Error(fmt::format("{}: not a readable JPEG file: {}", where, manager.message));
  return image;
}

#else

Image decode_jpeg(const std::string&, const std::string& where, std::int64_t) {
  throw Error(
      fmt::format("{}: this covnoise was built without libjpeg: install libjpeg-dev and build again, or convert "
                  "the images to PNG",
                  where));
}

#endif

}  // namespace covnoise
