#include "commands/commands.h"
#include "covnoise/core/error.h"
#include "covnoise/distributed/launch.h"
#include "interrupt.h"

#include <filesystem>
#include <memory>

namespace covnoise {
namespace {

void run_launch(LaunchOptions options, const std::vector<std::string>& command) {
  require(!command.empty(), "launch starts trainings: covnoise launch --nproc 2 train ...");
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  options.command.insert(options.command.end(), command.begin(), command.end());
  options.caught_signal = caught_signal;
  options.stop_now = stop_now;
  options.say = warn;
  catch_interrupts({"passing the signal on to the ranks", "passing the second signal on to the ranks"});
  const int code = launch(options);
  if (code != 0) throw Error("the training stopped early", code);
}

}  // namespace

int launch_arguments(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != "launch") return argc;
  int end = 2;
  while (end < argc && std::string(argv[end]) != "train") ++end;
  return end;
}

void add_launch_command(CLI::App& app, const std::vector<std::string>& command_of_ranks) {
  auto options = std::make_shared<LaunchOptions>();
  auto* command = app.add_subcommand("launch", "Train in several processes: covnoise launch --nproc 2 train ...");
  command->add_option("--nproc", options->processes, "number of processes on this machine")->check(CLI::Range(1, 4096));
  command
      ->add_option("--nnodes", options->machines,
                   "number of machines; run the same command on each, except for --node-rank")
      ->check(CLI::Range(1, 65536));
  command->add_option("--node-rank", options->machine, "index of this machine, from 0")->check(CLI::Range(0, 65535));
  command->add_option("--address", options->address, "address of machine 0, as the others reach it");
  command
      ->add_option("--port", options->port,
                   "port of machine 0 where the processes meet (one machine: default any free port)")
      ->check(CLI::Range(1, 65535));
  command
      ->add_option(
          "--restarts", options->restarts,
          "after a lost rank, start all ranks again from the last checkpoint, up to this many times (default 0)")
      ->check(CLI::Range(0, 1'000'000));
  command->callback([options, command_of_ranks] { run_launch(*options, command_of_ranks); });
}

}  // namespace covnoise
