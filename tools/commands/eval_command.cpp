#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/core/threads.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/internal/split.h"
#include "covnoise/train/trainer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <memory>

namespace covnoise {
namespace {

struct EvalArguments {
  std::string run, data_dir, split = "test", device = "cpu";
  int threads = 0;
  bool best = false, json = false, allow_older = false;
};

Evaluation evaluate_split(TrainedModel& trained, const std::string& name) {
  const Split split = make_split(trained.source, trained.config);
  if (name == "train") return evaluate(*trained.model, split.train);
  if (name == "test") return evaluate(*trained.model, split.test);
  if (!split.validation) throw Error("--split val: this run held nothing out (data.holdout = 0)");
  return evaluate(*trained.model, *split.validation);
}

void run_eval(const EvalArguments& arguments) {
  set_threads(arguments.threads);
  auto trained =
      load_trained(arguments.run, arguments.best ? Which::kBest : Which::kLast, known_data_sets({arguments.data_dir}),
                   warn, arguments.device, arguments.allow_older ? IfDamaged::kUseOlder : IfDamaged::kRefuse);
  if (arguments.best && trained.config.data.holdout == 0)
    warn(
        "the run held nothing out (data.holdout = 0), so its best checkpoint was chosen by the test set: the accuracy "
        "on "
        "the test set is too optimistic");
  const Evaluation result = evaluate_split(trained, arguments.split);
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"run", arguments.run},     {"step", trained.step},
                                         {"split", arguments.split}, {"examples", result.examples},
                                         {"loss", result.loss},      {"accuracy", result.accuracy}};
    std::printf("%s\n", json.dump().c_str());
  } else {
    std::printf("%s\n", fmt::format("{} accuracy {:.2f} %  loss {:.4f}  ({} images, step {})", arguments.split,
                                    100 * result.accuracy, result.loss, result.examples, trained.step)
                            .c_str());
  }
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  auto* command = app.add_subcommand("eval", "Evaluate the network of a run");
  command->add_option("run", arguments->run, "the run's folder")->required();
  command->add_option("--split", arguments->split, "split to evaluate: train, val or test")
      ->check(CLI::IsMember({"train", "val", "test"}));
  command->add_flag(
      "--best", arguments->best,
      "use the best checkpoint instead of the last: by validation accuracy, or by test accuracy without data.holdout");
  command->add_flag("--allow-older", arguments->allow_older,
                    "use the newest intact checkpoint if the one asked for is damaged");
  command->add_option("--data-dir", arguments->data_dir, "folder of the data sets");
  command->add_option("--threads", arguments->threads, "number of threads; 0: all processors");
  command->add_option("--device", arguments->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_flag("--json", arguments->json, "print one JSON object instead of text");
  command->callback([arguments] { run_eval(*arguments); });
}

}  // namespace covnoise
