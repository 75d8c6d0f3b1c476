#include "commands.h"
#include "covnoise/analysis/fisher.h"
#include "covnoise/core/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/train/split.h"
#include "covnoise/train/trainer.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

namespace covnoise {
namespace {

struct AnalyzeArguments {
  std::string run, out, data_dir, mode = "eval";
  std::int64_t examples = 0;
  int threads = 0;
};

void fisher(const AnalyzeArguments& arguments) {
  set_threads(arguments.threads);
  auto trained = load_trained(arguments.run, Which::kLast, {arguments.data_dir}, warn);
  const Split split = make_split(trained.source, trained.config);
  FisherOptions options;
  options.examples = arguments.examples;
  options.training_mode = arguments.mode == "train";
  options.ghost_batch = trained.config.train.ghost_batch;
  const auto result = fisher_diagonal(*trained.model, split.train, options);
  TensorFile file;
  for (const auto& [name, tensor] : result.gradient) file.tensors.emplace_back("grad." + name, tensor);
  for (const auto& [name, tensor] : result.diagonal) file.tensors.emplace_back("fisher." + name, tensor);
  file.metadata = {
      {"examples", std::to_string(result.examples)}, {"mode", arguments.mode}, {"step", std::to_string(trained.step)}};
  const std::filesystem::path out = arguments.out.empty() ? arguments.run : arguments.out;
  create_folders(out);
  write_safetensors(out / "fisher.safetensors", file);
  std::printf("%s\n", fmt::format("loss {:.6g}  Tr F {:.6g}  over {} training examples, step {}: {}", result.loss,
                                  result.trace, result.examples, trained.step, (out / "fisher.safetensors").string())
                          .c_str());
}

}  // namespace

void add_analyze_command(CLI::App& app) {
  auto* command = app.add_subcommand("analyze", "Look into the network of a run");
  command->require_subcommand(1);
  auto arguments = std::make_shared<AnalyzeArguments>();
  auto* sub = command->add_subcommand("fisher", "Gradient and Fisher diagonal of the last checkpoint, as safetensors");
  sub->add_option("run", arguments->run, "the run's folder")->required();
  sub->add_option("--examples", arguments->examples, "the first N training examples (default: all)")
      ->check(CLI::NonNegativeNumber);
  sub->add_option("--mode", arguments->mode, "eval (running statistics) or train (statistics of ghost batches)")
      ->check(CLI::IsMember({"eval", "train"}));
  sub->add_option("--out", arguments->out, "folder for fisher.safetensors (default: the run's)");
  sub->add_option("--data-dir", arguments->data_dir, "where the data sets are");
  sub->add_option("--threads", arguments->threads, "0: all processors");
  sub->callback([arguments] { fisher(*arguments); });
}

}  // namespace covnoise
