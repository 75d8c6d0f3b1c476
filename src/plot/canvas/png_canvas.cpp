#include "covnoise/core/error.h"
#include "plot/canvas/canvas.h"

#ifdef COVNOISE_HAS_CAIRO
#include <cairo.h>
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace covnoise::plot {

#ifdef COVNOISE_HAS_CAIRO
namespace {

constexpr double kPi = 3.14159265358979323846;

using SurfacePointer = std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)>;

/// To cairo's 32 bits per pixel: 0x00RRGGBB.
void copy_pixels(const Image& image, cairo_surface_t& surface) {
  cairo_surface_flush(&surface);
  const auto* in = image.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    auto* out =
        reinterpret_cast<std::uint32_t*>(cairo_image_surface_get_data(&surface) +
                                         static_cast<std::ptrdiff_t>(y) * cairo_image_surface_get_stride(&surface));
    for (int x = 0; x < image.width; ++x, in += 3) out[x] = std::uint32_t{in[0]} << 16 | in[1] << 8 | in[2];
  }
  cairo_surface_mark_dirty(&surface);
}

class PngCanvas final : public Canvas {
 public:
  PngCanvas(double width, double height, double scale)
      : surface_(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, static_cast<int>(std::ceil(width * scale)),
                                            static_cast<int>(std::ceil(height * scale))),
                 cairo_surface_destroy),
        context_(cairo_create(surface_.get()), cairo_destroy) {
    cairo_scale(context_.get(), scale, scale);
    cairo_set_line_join(context_.get(), CAIRO_LINE_JOIN_ROUND);
    cairo_set_fill_rule(context_.get(), CAIRO_FILL_RULE_EVEN_ODD);
  }

  void path(const std::vector<Polyline>& pieces, bool closed, const Paint& paint) override {
    for (const auto& piece : pieces) {
      cairo_new_sub_path(context_.get());
      for (const auto& point : piece) cairo_line_to(context_.get(), point.x, point.y);
      if (closed) cairo_close_path(context_.get());
    }
    draw(paint);
  }

  void circles(const Polyline& centers, double radius, const Paint& paint) override {
    for (const auto& center : centers) {  // one by one: where translucent circles overlap they add up, as in SVG
      cairo_new_sub_path(context_.get());
      cairo_arc(context_.get(), center.x, center.y, radius, 0, 2 * kPi);
      draw(paint);
    }
  }

  void rectangle(const Rect& rect, double r, const Paint& paint) override {
    cairo_t* const c = context_.get();
    if (r > 0) {
      cairo_new_sub_path(c);
      cairo_arc(c, rect.right() - r, rect.y + r, r, -kPi / 2, 0);
      cairo_arc(c, rect.right() - r, rect.bottom() - r, r, 0, kPi / 2);
      cairo_arc(c, rect.x + r, rect.bottom() - r, r, kPi / 2, kPi);
      cairo_arc(c, rect.x + r, rect.y + r, r, kPi, 1.5 * kPi);
      cairo_close_path(c);
    } else {
      cairo_rectangle(c, rect.x, rect.y, rect.width, rect.height);
    }
    draw(paint);
  }

  void image(const Rect& rect, const Image& image) override {
    cairo_t* const c = context_.get();
    const SurfacePointer source(cairo_image_surface_create(CAIRO_FORMAT_RGB24, image.width, image.height),
                                cairo_surface_destroy);
    copy_pixels(image, *source);
    cairo_save(c);
    cairo_translate(c, rect.x, rect.y);
    cairo_scale(c, rect.width / image.width, rect.height / image.height);
    cairo_set_source_surface(c, source.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(c), CAIRO_FILTER_NEAREST);
    cairo_rectangle(c, 0, 0, image.width, image.height);
    cairo_fill(c);
    cairo_restore(c);
  }

  void text(Point at, const std::string& text, const TextStyle& style) override {
    cairo_t* const c = context_.get();
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, style.size * 0.94);  // the fallback fonts of Linux run wider than those named in the SVG
    cairo_text_extents_t extents;
    cairo_text_extents(c, text.c_str(), &extents);
    const double shift = style.anchor == Anchor::kStart ? 0 : style.anchor == Anchor::kMiddle ? 0.5 : 1;
    cairo_save(c);
    cairo_translate(c, at.x, at.y);
    if (style.upward) cairo_rotate(c, -kPi / 2);
    cairo_move_to(c, -shift * extents.x_advance, 0);
    set_color(style.color);
    cairo_show_text(c, text.c_str());
    cairo_restore(c);
    cairo_new_path(c);
  }

  void begin_clip(const Rect& rect) override {
    cairo_save(context_.get());
    cairo_rectangle(context_.get(), rect.x, rect.y, rect.width, rect.height);
    cairo_clip(context_.get());
  }
  void end_clip() override { cairo_restore(context_.get()); }

  std::string bytes() override {
    std::string out;
    const auto append = [](void* target, const unsigned char* data, unsigned length) {
      static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(data), length);
      return CAIRO_STATUS_SUCCESS;
    };
    cairo_surface_write_to_png_stream(surface_.get(), append, &out);
    return out;
  }

 private:
  void set_color(const Color& color) {
    cairo_set_source_rgba(context_.get(), color.red / 255.0, color.green / 255.0, color.blue / 255.0, color.alpha);
  }

  void draw(const Paint& paint) {
    cairo_t* const c = context_.get();
    if (paint.fill) {
      set_color(*paint.fill);
      cairo_fill_preserve(c);
    }
    if (paint.stroke) {
      set_color(paint.stroke->color);
      cairo_set_line_width(c, paint.stroke->width);
      auto dashes = dash_pattern(paint.stroke->dash);
      for (double& length : dashes) length *= paint.stroke->width;
      cairo_set_dash(c, dashes.data(), static_cast<int>(dashes.size()), 0);
      cairo_stroke_preserve(c);
    }
    cairo_new_path(c);
  }

  SurfacePointer surface_;
  std::unique_ptr<cairo_t, void (*)(cairo_t*)> context_;
};

}  // namespace

std::unique_ptr<Canvas> make_png_canvas(double width, double height, double scale) {
  return std::make_unique<PngCanvas>(width, height, scale);
}
#else
std::unique_ptr<Canvas> make_png_canvas(double, double, double) { return nullptr; }
#endif

std::unique_ptr<Canvas> require_png_canvas(double width, double height, double scale) {
  auto canvas = make_png_canvas(width, height, scale);
  if (!canvas) throw Error("figures as PNG need cairo: install libcairo2-dev and build again (SVG needs nothing)");
  return canvas;
}

}  // namespace covnoise::plot
