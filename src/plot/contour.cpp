#include "plot/contour.h"

#include <array>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace covnoise::plot {
namespace {

/// Marching squares on the grid with one more ring of nodes around it, at the positions of the edge, where the function
/// counts as infinite: every contour is then closed.
class Marcher {
 public:
  Marcher(const Contours& grid, double level)
      : grid_(grid),
        level_(level),
        width_(static_cast<int>(grid.x.size()) + 2),
        height_(static_cast<int>(grid.y.size()) + 2) {}

  std::vector<Polyline> loops() {
    for (int j = 0; j + 1 < height_; ++j) {
      for (int i = 0; i + 1 < width_; ++i) cell(i, j);
    }
    std::vector<Polyline> loops;
    while (!links_.empty()) loops.push_back(follow(links_.begin()->first));
    return loops;
  }

 private:
  // An edge is named by its first node and its direction: 2 * node for the one to the right, + 1 for the one upwards.
  struct Link {
    int count = 0;
    std::array<long, 2> to{};
  };

  double x(int i) const { return grid_.x[static_cast<std::size_t>(std::min(std::max(i - 1, 0), width_ - 3))]; }
  double y(int j) const { return grid_.y[static_cast<std::size_t>(std::min(std::max(j - 1, 0), height_ - 3))]; }
  double value(int i, int j) const {
    if (i == 0 || j == 0 || i == width_ - 1 || j == height_ - 1) return std::numeric_limits<double>::infinity();
    return grid_.values[static_cast<std::size_t>(j - 1) * grid_.x.size() + static_cast<std::size_t>(i - 1)];
  }
  bool inside(int i, int j) const { return value(i, j) <= level_; }

  void connect(long a, long b) {
    for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
      Link& link = links_[from];
      link.to[static_cast<std::size_t>(link.count++)] = to;
    }
  }

  void cell(int i, int j) {
    const bool corner[] = {inside(i, j), inside(i + 1, j), inside(i + 1, j + 1), inside(i, j + 1)};
    const long node = static_cast<long>(j) * width_ + i;
    const long edge[] = {2 * node, 2 * (node + 1) + 1, 2 * (node + width_), 2 * node + 1};  // between corners k and k+1
    std::array<long, 4> cut{};
    std::size_t cuts = 0;
    for (int k = 0; k < 4; ++k) {
      if (corner[k] != corner[(k + 1) % 4]) cut[cuts++] = edge[k];
    }
    if (cuts == 2) connect(cut[0], cut[1]);
    if (cuts < 4) return;
    // A saddle: cut[k] is edge k. The centre decides which corners belong together.
    const double centre = (value(i, j) + value(i + 1, j) + value(i, j + 1) + value(i + 1, j + 1)) / 4;
    if ((centre <= level_) == corner[0]) {  // corner 0 joins corner 2; 1 and 3 are cut off
      connect(cut[0], cut[1]);
      connect(cut[2], cut[3]);
    } else {
      connect(cut[3], cut[0]);
      connect(cut[1], cut[2]);
    }
  }

  Point position(long edge) const {
    const long node = edge / 2;
    const int i = static_cast<int>(node % width_), j = static_cast<int>(node / width_);
    const int i1 = edge % 2 == 0 ? i + 1 : i, j1 = edge % 2 == 0 ? j : j + 1;
    const double a = value(i, j), b = value(i1, j1);
    const double t = std::isfinite(a) && std::isfinite(b) ? (level_ - a) / (b - a) : 0.5;
    return {x(i) + t * (x(i1) - x(i)), y(j) + t * (y(j1) - y(j))};
  }

  Polyline follow(long start) {
    Polyline loop;
    long previous = -1, at = start;
    do {
      loop.push_back(position(at));
      const auto found = links_.find(at);
      const long next = found->second.to[0] == previous ? found->second.to[1] : found->second.to[0];
      links_.erase(found);
      previous = at;
      at = next;
    } while (at != start && links_.count(at) != 0);
    return loop;
  }

  const Contours& grid_;
  double level_;
  int width_, height_;
  std::unordered_map<long, Link> links_;
};

}  // namespace

std::vector<Polyline> contour_loops(const Contours& grid, double level) { return Marcher(grid, level).loops(); }

}  // namespace covnoise::plot
