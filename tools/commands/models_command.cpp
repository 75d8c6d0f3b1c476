#include "commands/commands.h"
#include "covnoise/nn/model_zoo.h"

#include <fmt/format.h>

#include <cstdio>

namespace covnoise {
namespace {

/// The images a network is usually trained on.
InputShape usual_input(const std::string& name) {
  return name == "mlp" || name == "lenet" ? InputShape{1, 28, 28} : InputShape{3, 32, 32};
}

void print_models() {
  constexpr auto kRow = "{:<12} {:>9} {:>12} {:>14}  {:<13}  {}\n";
  fmt::print(kRow, "model", "input", "parameters", "multiply-adds", "normalisation", "what it is");
  for (const auto& name : model_names()) {
    const auto input = usual_input(name);
    const auto info = model_info(name);
    const auto model = make_model(name, {input, 10, 0});
    fmt::print(kRow, name, fmt::format("{}x{}x{}", input.channels, input.height, input.width), parameter_count(*model),
               multiply_adds(*model, input), info.batch_statistics ? "batch" : "none", info.summary);
  }
  fmt::print(
      "\nCounts are for 10 classes; multiply-adds are those of the forward pass of one image. Any resnet<6n+2>"
      " works; append x<width> for a wider one.\n");
}

}  // namespace

void add_models_command(CLI::App& app) {
  app.add_subcommand("models", "List the networks with their sizes")->callback(print_models);
}

}  // namespace covnoise
