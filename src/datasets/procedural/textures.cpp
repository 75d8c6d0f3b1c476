#include "covnoise/datasets/textures.h"

#include "datasets/procedural/procedural.h"

#include <array>
#include <cmath>

namespace covnoise {
namespace {

constexpr int kSide = 32;
constexpr int kSeeds = 24;  // of the cells

/// All random parameters of a pattern except its colours.
struct Shape {
  float duty;               // share of the first colour, about a half
  float amplitude, length;  // of waves and zigzags, in periods
  Point centre;             // of rings and rays, in periods
  float spokes;
  std::array<Point, kSeeds> seeds;  // of cells, in periods
};

/// Distance from the nearest whole number.
float to_whole(float x) {
  const float f = fraction(x);
  return f < 0.5f ? f : 1.0f - f;
}

/// The angle of (x, y) in turns, [0, 1), to 2e-4: atan by a polynomial on an eighth of a turn.
float angle_turns(float x, float y) {
  const float ax = x < 0.0f ? -x : x, ay = y < 0.0f ? -y : y;
  const bool steep = ay > ax;
  const float q = (steep ? ax : ay) / ((steep ? ay : ax) + 1e-20f);
  float turns = q * (0.158416f + q * q * (-0.045945f + q * q * 0.012626f));
  if (steep) turns = 0.25f - turns;
  if (x < 0.0f) turns = 0.5f - turns;
  return y < 0.0f ? 1.0f - turns : turns;
}

// Each pattern tells which of the two colours a point has; the period is 1.
bool bricks(Point p, const Shape& s) {
  const float joint = 0.12f + 0.2f * s.duty;
  const bool odd = fraction(0.5f * p.y) >= 0.5f;
  return fraction(p.y) < joint || fraction(0.5f * p.x + (odd ? 0.5f : 0.0f)) < 0.5f * joint;
}
bool cells(Point p, const Shape& s) {
  float nearest = 1e9f, second = 1e9f;
  for (const Point& seed : s.seeds) {
    const float dx = p.x - seed.x, dy = p.y - seed.y, squared = dx * dx + dy * dy;
    second = squared < nearest ? nearest : (squared < second ? squared : second);
    nearest = squared < nearest ? squared : nearest;
  }
  return std::sqrt(second) - std::sqrt(nearest) < 0.15f + 0.25f * s.duty;
}
bool checks(Point p, const Shape&) { return (fraction(0.5f * p.x) < 0.5f) != (fraction(0.5f * p.y) < 0.5f); }
bool dots(Point p, const Shape& s) {
  const float dx = to_whole(p.x), dy = to_whole(p.y);
  return dx * dx + dy * dy < 0.05f + 0.16f * s.duty;
}
bool grid(Point p, const Shape& s) {
  const float bar = 0.1f + 0.35f * s.duty;
  return fraction(p.x) < bar || fraction(p.y) < bar;
}
bool rays(Point p, const Shape& s) {
  return fraction(s.spokes * angle_turns(p.x - s.centre.x, p.y - s.centre.y)) < s.duty;
}
bool rings(Point p, const Shape& s) {
  const float dx = p.x - s.centre.x, dy = p.y - s.centre.y;
  return fraction(std::sqrt(dx * dx + dy * dy)) < s.duty;
}
bool stripes(Point p, const Shape& s) { return fraction(p.x) < s.duty; }
bool waves(Point p, const Shape& s) { return fraction(p.x + s.amplitude * sine(p.y / s.length)) < s.duty; }
bool zigzag(Point p, const Shape& s) {
  return fraction(p.x + s.amplitude * (4.0f * to_whole(p.y / s.length) - 1.0f)) < s.duty;
}

struct Kind {
  const char* name;
  bool (*pattern)(Point, const Shape&);
  bool centred;  // has a centre of its own: a random phase would only push it out of the picture
};
constexpr Kind kKinds[] = {{"bricks", bricks, false}, {"cells", cells, true},      {"checks", checks, false},
                           {"dots", dots, false},     {"grid", grid, false},       {"rays", rays, true},
                           {"rings", rings, true},    {"stripes", stripes, false}, {"waves", waves, false},
                           {"zigzag", zigzag, false}};

Shape draw_shape(Dice& dice, float periods) {
  Shape shape;
  shape.duty = dice.uniform(0.35f, 0.65f);
  shape.amplitude = dice.uniform(0.3f, 0.6f);
  shape.length = dice.uniform(1.5f, 2.6f);
  shape.centre = {dice.uniform(-0.3f, 0.3f) * periods, dice.uniform(-0.3f, 0.3f) * periods};
  shape.spokes = static_cast<float>(dice.integer(5, 10));
  const float reach = 0.75f * periods;
  for (Point& seed : shape.seeds) seed = {dice.uniform(-reach, reach), dice.uniform(-reach, reach)};
  return shape;
}

/// Picture -> pattern: rotation about the centre, scale, a slow warp, and a phase.
class View {
 public:
  View(Dice& dice, float periods)
      : phase_{dice.uniform(0.0f, 2.0f), dice.uniform(0.0f, 2.0f)}, warp_(dice, 0.2f, 3.0f) {
    const float angle = dice.uniform(-0.08f, 0.08f), scale = periods / kSide;  // turns, periods per pixel
    cosine_ = cosine(angle) * scale;
    sine_ = sine(angle) * scale;
  }
  /// The centre of a pixel.
  Point operator()(int row, int column, bool centred) const {
    const Point p =
        warp_(turn(static_cast<float>(column) - 0.5f * (kSide - 1), static_cast<float>(row) - 0.5f * (kSide - 1)));
    return centred ? p : Point{p.x + phase_.x, p.y + phase_.y};
  }
  /// A step in the picture, without the warp.
  Point turn(float x, float y) const { return {cosine_ * x - sine_ * y, sine_ * x + cosine_ * y}; }

 private:
  Point phase_;
  Warp warp_;
  float cosine_, sine_;  // times the scale
};

using Color = std::array<float, 3>;

Color draw_color(Dice& dice, float low, float high) {
  return {dice.uniform(low, high), dice.uniform(low, high),
          dice.uniform(low, high)};  // braces evaluate from left to right
}

/// The first colour minus the second: any hue, but brighter.
Color draw_contrast(Dice& dice) {
  for (;;) {
    const Color contrast = draw_color(dice, -0.5f, 0.8f);
    const float brightness = (contrast[0] + contrast[1] + contrast[2]) * (1.0f / 3.0f);
    if (brightness > 0.25f) return contrast;
  }
}

/// Share of the first colour in one pixel: four samples.
float coverage(const Kind& kind, const Shape& shape, const View& view, int row, int column) {
  const Point middle = view(row, column, kind.centred), a = view.turn(0.25f, 0.25f), b = view.turn(0.25f, -0.25f);
  int hits = 0;
  for (const Point& step : {a, b, Point{-a.x, -a.y}, Point{-b.x, -b.y}}) {
    hits += kind.pattern({middle.x + step.x, middle.y + step.y}, shape) ? 1 : 0;
  }
  return 0.25f * static_cast<float>(hits);
}

using Plane = std::array<float, std::size_t{kSide} * kSide>;

/// Share of the first colour in every pixel, under oblique light, minus its mean.
Plane draw_shares(const Kind& kind, Dice& dice) {
  const float periods = dice.uniform(3.0f, 6.0f);
  const Shape shape = draw_shape(dice, periods);
  const View view(dice, periods);
  const float slope_x = dice.uniform(-0.4f, 0.4f) / kSide, slope_y = dice.uniform(-0.4f, 0.4f) / kSide;
  constexpr int kMiddle = kSide / 2;
  Plane shares;
  float sum = 0.0f;
  for (int i = 0; i < kSide * kSide; ++i) {
    const int row = i / kSide, column = i % kSide;
    const float light = slope_x * static_cast<float>(column - kMiddle) + slope_y * static_cast<float>(row - kMiddle);
    shares[static_cast<std::size_t>(i)] = coverage(kind, shape, view, row, column) + light;
    sum += shares[static_cast<std::size_t>(i)];
  }
  for (float& share : shares) share -= sum / (kSide * kSide);
  return shares;
}

/// The mean colour is independent of the pattern, so it does not reveal the class.
void draw_pattern(const Kind& kind, Dice& dice, float* pixels) {
  const Plane shares = draw_shares(kind, dice);
  const Color mean = draw_color(dice, 0.35f, 0.65f), contrast = draw_contrast(dice);
  for (std::size_t c = 0; c < 3; ++c) {
    for (const float share : shares) *pixels++ = mean[c] + share * contrast[c];
  }
}

/// A plain disc that hides part of the pattern.
void draw_disc(Dice& dice, float* pixels) {
  const Color color = draw_color(dice, 0.1f, 0.9f);
  const Point centre{dice.uniform(0.0f, kSide), dice.uniform(0.0f, kSide)};
  const float radius = dice.uniform(2.0f, 6.0f);
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const float dx = static_cast<float>(column) + 0.5f - centre.x, dy = static_cast<float>(row) + 0.5f - centre.y;
      const float share = clamp_unit(radius + 0.5f - std::sqrt(dx * dx + dy * dy));
      for (std::size_t c = 0; c < 3; ++c) {
        float& pixel = pixels[(static_cast<int>(c) * kSide + row) * kSide + column];
        pixel += share * (color[c] - pixel);
      }
    }
  }
}

void draw_texture(int label, Dice& dice, float* pixels) {
  draw_pattern(kKinds[label], dice, pixels);
  for (int i = dice.integer(0, 2); i > 0; --i) draw_disc(dice, pixels);
  const float noise = dice.uniform(0.02f, 0.12f);
  for (int i = 0; i < 3 * kSide * kSide; ++i) pixels[i] += noise * dice.bell();
}

}  // namespace

DataSource make_textures() {
  Procedure procedure{"textures", /*seed=*/32, /*channels=*/3, kSide, /*train=*/10000, /*test=*/4000, {}, draw_texture};
  for (const Kind& kind : kKinds) procedure.classes.emplace_back(kind.name);
  return make_procedural(procedure);
}

}  // namespace covnoise
