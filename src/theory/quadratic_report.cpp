#include "covnoise/plot/internal/study_files.h"
#include "covnoise/theory/internal/quadratic_figures.h"
#include "theory/figure_tools.h"

#include <fmt/format.h>

#include <cmath>

namespace covnoise::theory {
namespace {

using Json = nlohmann::ordered_json;

double printed_steps(const QuadraticResult& result, double error) { return result.curvature / error; }

template <class Value>
std::string cell(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

CsvTable loss_csv(const QuadraticStudy& study) {
  CsvTable table({"noise", "step", "exact_loss", "bound"});
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < r.steps.size(); ++i) {
      table.add(r.name, r.steps[i], r.exact[i],
                cell(r.bound ? std::optional<double>((*r.bound)(r.steps[i])) : std::nullopt));
    }
  }
  return table;
}

CsvTable simulated_csv(const QuadraticStudy& study) {
  CsvTable table({"noise", "step", "mean_loss", "standard_error"});
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < r.simulated.steps.size(); ++i) {
      table.add(r.name, r.simulated.steps[i], r.simulated.mean[i], r.simulated.standard_error[i]);
    }
  }
  return table;
}

CsvTable steps_csv(const QuadraticStudy& study) {
  CsvTable table({"noise", "error", "steps", "table_1", "bound"});
  for (const auto& r : study.results) {
    for (std::size_t i = 0; i < study.errors.size(); ++i) {
      const double error = study.errors[i];
      table.add(r.name, error, cell(r.reached[i]), printed_steps(r, error),
                cell(r.bound ? std::optional<double>(r.bound->steps_to_reach(error)) : std::nullopt));
    }
  }
  return table;
}

CsvTable stationary_csv(const QuadraticStudy& study) {
  CsvTable table({"alpha_lambda_max", "full_over_diagonal"});
  for (std::size_t i = 0; i < study.ratio.alpha.size(); ++i) table.add(study.ratio.alpha[i], study.ratio.stationary[i]);
  return table;
}

CsvTable trajectory_csv(const QuadraticStudy& study) {
  CsvTable table({"noise", "step", "theta_1", "theta_2", "exact_mean_loss"});
  for (const auto& run : study.plane.runs) {
    for (std::int64_t k = 0; k < run.path.size(0); ++k) {
      table.add(run.name, k, run.path[k][0].item<double>(), run.path[k][1].item<double>(),
                run.exact[static_cast<std::size_t>(k)]);
    }
  }
  return table;
}

Json result_json(const QuadraticStudy& study, const QuadraticResult& r) {
  Json json{{"noise", r.name},
            {"trace", r.trace},
            {"curvature", r.curvature},
            {"simulated_loss", r.simulated.mean.back()},
            {"standard_error", r.simulated.standard_error.back()},
            {"asymptotic_constant", asymptotic_constant(study.quadratic, r.factor)}};
  if (r.bound) json["bound"] = {{"nu", r.bound->nu}, {"gamma", r.bound->gamma}};
  for (std::size_t i = 0; i < study.errors.size(); ++i) {
    json["steps"].push_back({{"error", study.errors[i]},
                             {"measured", r.reached[i] ? Json(*r.reached[i]) : Json()},
                             {"table_1", printed_steps(r, study.errors[i])}});
  }
  return json;
}

Json study_json(const QuadraticStudy& study) {
  const Quadratic& q = study.quadratic;
  Json json{{"dimension", q.dimension()},
            {"lambda_min", q.lambda_min()},
            {"lambda_max", q.lambda_max()},
            {"rate", study.options.rate},
            {"initial_loss", study.options.initial_loss},
            {"iterations", study.options.iterations},
            {"trajectories", study.options.trajectories},
            {"seed", study.options.seed}};
  for (const auto& result : study.results) json["results"].push_back(result_json(study, result));
  Json ratio{{"frobenius_squared", study.ratio.frobenius},
             {"one_step_rise", study.ratio.one_step},
             {"one_step_rise_error", study.ratio.one_step_error},
             {"asymptotic_steps", study.ratio.asymptotic}};
  for (const auto& steps : study.ratio.steps) ratio["steps"].push_back(steps ? Json(*steps) : Json());
  json["full_over_diagonal"] = ratio;
  return json;
}

std::string steps_text(const std::optional<std::int64_t>& steps, std::int64_t most) {
  return steps ? std::to_string(*steps) : fmt::format("> {}", most);
}

}  // namespace

std::string quadratic_table(const QuadraticStudy& study) {
  const Quadratic& q = study.quadratic;
  const double error = study.errors[study.errors.size() / 2];
  const std::size_t index = study.errors.size() / 2;
  std::string text = fmt::format("dimension {}, eigenvalues {:.4g} to {:.4g}, {} trajectories\n\n", q.dimension(),
                                 q.lambda_min(), q.lambda_max(), study.options.trajectories);
  text += fmt::format("{:<12}{:>9}{:>10}{:>20}{:>11}{:>10}{:>16}{:>10}\n", "noise C", "Tr CC'", "Tr C'AC",
                      fmt::format("loss after {}", study.options.iterations), "exact", "bound",
                      fmt::format("steps to {:g}", error), "table 1");
  for (const auto& r : study.results) {
    const auto exact = exact_losses(q, r.factor, study.steps, study.theta_0, study.options.iterations).back();
    text += fmt::format("{:<12}{:>9.4g}{:>10.4g}{:>20}{:>11.4g}{:>10}{:>16}{:>10.0f}\n", r.name, r.trace, r.curvature,
                        fmt::format("{:.4g} +- {:.1g}", r.simulated.mean.back(), r.simulated.standard_error.back()),
                        exact, r.bound ? fmt::format("{:.4g}", (*r.bound)(study.options.iterations)) : "-",
                        steps_text(r.reached[index], study.options.horizon), printed_steps(r, error));
  }
  text +=
      fmt::format("\nratio of sqrt(A) to sqrt(diag A): {:.3f} by table 1; one step from the minimum {:.3f} +- {:.3f}",
                  study.ratio.frobenius, study.ratio.one_step, study.ratio.one_step_error);
  if (study.ratio.steps[index]) text += fmt::format("; steps to {:g}: {:.3f}", error, *study.ratio.steps[index]);
  return text +
         fmt::format("\nstationary loss of constant steps: {:.3f} at 0.1/lambda_max, {:.3f} at 1, {:.3f} at 1.9\n",
                     study.ratio.stationary[9], study.ratio.stationary[99], study.ratio.stationary[189]);
}

std::vector<std::filesystem::path> save_study(const QuadraticStudy& study, const std::filesystem::path& folder) {
  StudyFiles files(folder);
  files.add("loss", loss_csv(study));
  files.add("simulated", simulated_csv(study));
  files.add("steps", steps_csv(study));
  files.add("stationary", stationary_csv(study));
  files.add("trajectories", trajectory_csv(study));
  files.add("quadratic", study_json(study));
  files.add("quadratic", loss_figure(study));
  files.add("trajectories", plane_figure(study));
  return files.paths();
}

}  // namespace covnoise::theory
