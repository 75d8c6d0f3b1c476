#include "covnoise/plot/internal/study_files.h"
#include "covnoise/theory/regression.h"
#include "theory/figure_tools.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace covnoise::theory {
namespace {

using Json = nlohmann::ordered_json;

double entry(const at::Tensor& tensor, std::int64_t i, std::int64_t j) { return tensor[i][j].item<double>(); }
double entry(const at::Tensor& tensor, std::int64_t i) { return tensor[i].item<double>(); }

std::array<double, 3> covariance_of(const Cloud& cloud) {
  return {entry(cloud.covariance, 0, 0), entry(cloud.covariance, 0, 1), entry(cloud.covariance, 1, 1)};
}

/// Standard deviations along the gradient at the start and across it.
std::array<double, 2> spreads(const RegressionStudy& study, const Cloud& cloud) {
  const at::Tensor start = at::tensor({study.options.start[0], study.options.start[1]}, at::kDouble);
  at::Tensor along = study.problem.example_gradients(start).mean(0);
  along = along / along.norm();
  const at::Tensor across = at::stack({-along[1], along[0]});
  const auto spread = [&](const at::Tensor& u) {
    return std::sqrt(at::dot(u, at::mv(cloud.covariance, u)).item<double>());
  };
  return {spread(along), spread(across)};
}

/// |covariance - that of SGD| / |that of SGD|, Frobenius.
double distance_from_sgd(const RegressionStudy& study, const Cloud& cloud) {
  const at::Tensor& sgd = study.clouds.front().covariance;
  return ((cloud.covariance - sgd).norm() / sgd.norm()).item<double>();
}

std::vector<double> column(const at::Tensor& points, std::int64_t index) {
  const at::Tensor values = points.select(1, index).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

/// The square that shows the start, the minimum and nearly all points of every cloud, the same for all panels.
std::array<std::array<double, 2>, 2> window(const RegressionStudy& study) {
  std::array<std::array<double, 2>, 2> ranges;
  double length = 0;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const auto i = static_cast<std::int64_t>(axis);
    double low = study.options.start[axis], high = low;
    const auto include = [&](double value) {
      low = std::min(low, value);
      high = std::max(high, value);
    };
    include(entry(study.problem.minimum(), i));
    for (const auto& cloud : study.clouds) {
      for (const double sign : {-3.3, 3.3})
        include(entry(cloud.mean, i) + sign * std::sqrt(entry(cloud.covariance, i, i)));
    }
    ranges[axis] = {low, high};
    length = std::max(length, 1.25 * (high - low));
  }
  for (auto& range : ranges) {
    const double middle = (range[0] + range[1]) / 2;
    range = {middle - length / 2, middle + length / 2};
  }
  return ranges;
}

plot::Panel cloud_panel(const RegressionStudy& study, const Cloud& cloud, const plot::Contours& contours) {
  plot::Panel panel{cloud.name, {"θ₁"}, {"θ₂"}, {}, true};
  plot::Style points, ellipse, start, mean, minimum;
  points = {1, 1, plot::Dash::kSolid, plot::Marker::kCircle, 1.5, 0.45};
  ellipse = {6, 1.5, plot::Dash::kSolid};
  start = {0, 1, plot::Dash::kSolid, plot::Marker::kDiamond, 4.5};
  mean = {2, 1, plot::Dash::kSolid, plot::Marker::kSquare, 4};
  minimum = {6, 1, plot::Dash::kSolid, plot::Marker::kCross, 4.5};
  const at::Tensor best = study.problem.minimum();
  panel.layers = {
      contours,
      plot::Points{"after one step", column(cloud.points, 0), column(cloud.points, 1), {}, points},
      plot::Ellipse{
          "two standard deviations", {entry(cloud.mean, 0), entry(cloud.mean, 1)}, covariance_of(cloud), 2, ellipse},
      plot::Points{"start", {study.options.start[0]}, {study.options.start[1]}, {}, start},
      plot::Points{"mean after one step", {entry(cloud.mean, 0)}, {entry(cloud.mean, 1)}, {}, mean},
      plot::Points{"minimum", {entry(best, 0)}, {entry(best, 1)}, {}, minimum}};
  panel.title += fmt::format(": mean loss {:.4f}", mean_loss(study, cloud));
  return panel;
}

plot::Figure cloud_figure(const RegressionStudy& study) {
  plot::Figure figure;
  figure.title = "One step of a two-dimensional regression";
  figure.subtitle = fmt::format(
      "{} examples, batch {} against the full batch with noise of covariance σ²I (σ = {:g}), s²F and s² diag F; step "
      "size "
      "{:g}. Contours: the loss.",
      study.options.examples, study.options.small_batch, study.options.sigma, study.options.alpha);
  figure.columns = 2;
  figure.panel_width = figure.panel_height = 330;
  figure.shared_legend = true;
  const auto ranges = window(study);
  const auto loss = [&](double x, double y) { return study.problem.loss(at::tensor({x, y}, at::kDouble)); };
  const plot::Contours contours = contours_of(loss, ranges[0], ranges[1], 10);
  for (const auto& cloud : study.clouds) figure.panels.push_back(cloud_panel(study, cloud, contours));
  return figure;
}

Json cloud_json(const RegressionStudy& study, const Cloud& cloud) {
  const auto [along, across] = spreads(study, cloud);
  return {{"name", cloud.name},
          {"mean", {entry(cloud.mean, 0), entry(cloud.mean, 1)}},
          {"covariance", covariance_of(cloud)},
          {"std_along_gradient", along},
          {"std_across_gradient", across},
          {"mean_loss", mean_loss(study, cloud)},
          {"distance_from_sgd", distance_from_sgd(study, cloud)}};
}

}  // namespace

std::string regression_table(const RegressionStudy& study) {
  std::string text = fmt::format("{:<18}{:>14}{:>14}{:>14}{:>22}\n", "one step", "std along g", "std across g",
                                 "mean loss", "error of covariance");
  for (const auto& cloud : study.clouds) {
    const auto [along, across] = spreads(study, cloud);
    text += fmt::format("{:<18}{:>14.4f}{:>14.4f}{:>14.5f}{:>20.1f} %\n", cloud.name, along, across,
                        mean_loss(study, cloud), 100 * distance_from_sgd(study, cloud));
  }
  return text;
}

std::vector<std::filesystem::path> save_study(const RegressionStudy& study, const std::filesystem::path& folder,
                                              plot::Formats formats) {
  CsvTable table({"cloud", "theta_1", "theta_2"});
  Json json{{"examples", study.options.examples}, {"small_batch", study.options.small_batch},
            {"alpha", study.options.alpha},       {"sigma", study.options.sigma},
            {"seed", study.options.seed},         {"start", study.options.start}};
  for (const auto& cloud : study.clouds) {
    const auto x = column(cloud.points, 0), y = column(cloud.points, 1);
    for (std::size_t i = 0; i < x.size(); ++i) table.add(cloud.name, x[i], y[i]);
    json["clouds"].push_back(cloud_json(study, cloud));
  }
  StudyFiles files(folder, formats);
  files.add("points", table);
  files.add("regression", json);
  files.add("regression", cloud_figure(study));
  return files.paths();
}

}  // namespace covnoise::theory
