#include "covnoise/datasets/glyphs.h"

#include "datasets/procedural/strokes.h"

#include <algorithm>

namespace covnoise {
namespace {

/// The ideal letters. Several share strokes (E and F; P, R and B), so that details matter.
const std::vector<std::vector<Stroke>>& letters() {
  const Stroke stem{{{0.0f, 0.0f}, {0.0f, 1.0f}}};
  const Stroke top{{{0.0f, 0.0f}, {0.9f, 0.0f}}};
  const Stroke middle{{{0.0f, 0.48f}, {0.7f, 0.48f}}};
  const Stroke bottom{{{0.0f, 1.0f}, {0.9f, 1.0f}}};
  const Stroke bowl{{{0.0f, 0.0f}, {0.6f, 0.02f}, {0.88f, 0.26f}, {0.6f, 0.5f}, {0.0f, 0.52f}}, true};
  static const std::vector<std::vector<Stroke>> table{
      /* A */ {{{{0.0f, 1.0f}, {0.5f, 0.0f}, {1.0f, 1.0f}}}, {{{0.2f, 0.62f}, {0.8f, 0.62f}}}},
      /* B */ {stem, bowl, {{{0.0f, 0.52f}, {0.65f, 0.53f}, {0.95f, 0.77f}, {0.65f, 0.99f}, {0.0f, 1.0f}}, true}},
      /* E */ {stem, top, middle, bottom},
      /* F */ {stem, top, middle},
      /* H */ {stem, {{{0.9f, 0.0f}, {0.9f, 1.0f}}}, {{{0.0f, 0.5f}, {0.9f, 0.5f}}}},
      /* K */ {stem, {{{0.88f, 0.0f}, {0.0f, 0.6f}}}, {{{0.28f, 0.42f}, {0.95f, 1.0f}}}},
      /* P */ {stem, bowl},
      /* R */ {stem, bowl, {{{0.35f, 0.52f}, {0.95f, 1.0f}}}},
      /* S */
      {{{{0.88f, 0.14f}, {0.5f, 0.0f}, {0.1f, 0.22f}, {0.48f, 0.48f}, {0.9f, 0.75f}, {0.5f, 1.0f}, {0.06f, 0.86f}},
        true}},
      /* X */ {{{{0.05f, 0.0f}, {0.95f, 1.0f}}}, {{{0.95f, 0.0f}, {0.05f, 1.0f}}}},
  };
  return table;
}

/// Position and shape of the letter: unit square -> pixels.
class Placement {
 public:
  explicit Placement(Dice& dice)
      : width_(dice.uniform(9.0f, 16.0f)),
        height_(dice.uniform(13.0f, 20.0f)),
        slant_(dice.uniform(-0.4f, 0.4f)),
        angle_(dice.uniform(-0.04f, 0.04f)),
        centre_{14.0f + dice.uniform(-3.0f, 3.0f), 14.0f + dice.uniform(-3.0f, 3.0f)},
        warp_(dice, 1.5f, 14.0f) {}

  Point operator()(Point p) const {
    const float y = (p.y - 0.5f) * height_;
    const float x = (p.x - 0.5f) * width_ - slant_ * y;
    const float c = cosine(angle_), s = sine(angle_);
    return warp_({centre_.x + c * x - s * y, centre_.y + s * x + c * y});
  }

 private:
  float width_, height_, slant_, angle_;  // pixels, pixels, tangent, turns
  Point centre_;
  Warp warp_;
};

void draw_letter(int label, Dice& dice, float ink, Pen& pen, Pen::Plane& picture) {
  const Placement placement(dice);
  const float radius = dice.uniform(0.55f, 1.6f);
  for (Stroke stroke : letters()[static_cast<std::size_t>(label)]) {
    for (Point& point : stroke.points) {
      point.x += 0.06f * dice.bell();
      point.y += 0.05f * dice.bell();
    }
    std::vector<Point> path = flatten(stroke);
    for (Point& point : path) point = placement(point);
    pen.path(path);
  }
  pen.ink(radius, ink, picture);
}

Point anywhere(Dice& dice) { return {dice.uniform(0.0f, Pen::kSide), dice.uniform(0.0f, Pen::kSide)}; }

/// A short curved line: clutter if drawn in ink, wear of the letter if drawn in the background's colour.
struct Scratch {
  float length, radius, value;
};

void draw_scratch(const Scratch& scratch, Dice& dice, Pen& pen, Pen::Plane& picture) {
  const Point start = anywhere(dice);
  const float angle = dice.uniform(0.0f, 1.0f), bend = dice.uniform(-0.3f, 0.3f), half = 0.5f * scratch.length;
  const Point middle{start.x + half * cosine(angle), start.y + half * sine(angle)};
  const Point end{middle.x + half * cosine(angle + bend), middle.y + half * sine(angle + bend)};
  pen.path(flatten({{start, middle, end}, true}));
  pen.ink(scratch.radius, scratch.value, picture);
}

void add_noise(Dice& dice, float strength, Pen::Plane& picture) {
  for (float& pixel : picture) pixel += strength * dice.bell();
}

void draw_glyph(int label, Dice& dice, float* pixels) {
  Pen pen;
  Pen::Plane picture;
  const float ground = dice.uniform(0.0f, 0.25f), ink = dice.uniform(0.6f, 1.0f);
  picture.fill(ground);
  for (int i = dice.integer(1, 3); i > 0; --i) {  // braces evaluate from left to right, calls need not
    const Scratch clutter{dice.uniform(3.0f, 9.0f), dice.uniform(0.4f, 1.2f), dice.uniform(0.3f, 0.8f)};
    draw_scratch(clutter, dice, pen, picture);
  }
  draw_letter(label, dice, ink, pen, picture);
  for (int i = dice.integer(0, 2); i > 0; --i) {
    const Scratch wear{dice.uniform(3.0f, 8.0f), dice.uniform(0.5f, 1.2f), ground};
    draw_scratch(wear, dice, pen, picture);
  }
  add_noise(dice, dice.uniform(0.02f, 0.1f), picture);
  std::copy(picture.begin(), picture.end(), pixels);
}

}  // namespace

DataSource make_glyphs() {
  return make_procedural({"glyphs",
                          /*seed=*/28,
                          /*channels=*/1,
                          Pen::kSide,
                          /*train=*/10000,
                          /*test=*/4000,
                          {"A", "B", "E", "F", "H", "K", "P", "R", "S", "X"},
                          draw_glyph});
}

}  // namespace covnoise
