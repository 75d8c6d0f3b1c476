// A training step of several ranks, each on a core of its own: bytes handed to the process group in a step (noise must
// not add any), and the speed of R ranks on R cores over that of one process on one core.
//   build/bench_distributed [model] [batch] [ranks] [regime,...]     e.g. resnet20 512 2 lb,lb-diag
// The same with COVNOISE_BENCH_DEVICE=cuda has one GPU for each rank; 1 rank against no process group then shows what
// the exchange costs.
#include "covnoise/core/error.h"
#include "covnoise/core/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/distributed/launch.h"
#include "covnoise/nn/initialize.h"
#include "covnoise/ops/device.h"
#include "covnoise/train/defaults.h"
#include "train/initial_model.h"
#include "train/training_run.h"

#include <fmt/format.h>
#include <sched.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace covnoise {
namespace {

constexpr int kWarmUp = 3, kMeasured = 9;

struct StepCost {
  double milliseconds = 0;
  std::uint64_t bytes = 0;
};

std::string device_name() {
  const char* name = std::getenv("COVNOISE_BENCH_DEVICE");
  return name ? name : "cpu";
}

Config bench_config(const std::string& model, const std::string& batch, const std::string& regime) {
  Config config = load_config(
      std::nullopt, {"model=" + model, "regime=" + regime, "train.batch=" + batch, "run.device=" + device_name(),
                     "train.lr=1e-4", "noise.stop_after=1", "train.epochs=1000"});
  resolve_defaults(config);
  return config;
}

DataSource random_source(std::int64_t examples) {
  DataSource source;
  source.name = "random";
  source.train = source.test = {torch::randint(0, 256, {examples, 3, 32, 32}, torch::kUInt8),
                                torch::randint(0, 10, {examples}, torch::kInt64)};
  source.mean.assign(3, 0.5), source.std.assign(3, 0.25);
  source.classes.assign(10, "class");
  return source;
}

void stay_on_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  require(::sched_setaffinity(0, sizeof set, &set) == 0, fmt::format("there is no core {} for a rank", core));
  set_threads(1);
}

StepCost measure_step(const Config& config, Communicator* communicator) {
  torch::manual_seed(1);
  const auto device = training_device(config);
  const DeviceStream stream(device);
  const auto source = random_source(config.train.batch);
  const Split split = make_split(source, config);
  const Schedule schedule(config, split.train.size());
  const auto model = model_for(config, source);
  initialize(*model, config.seed);
  model->to(device);
  model->train();
  FlatParameters parameters(*model);
  TrainingStep step(config, *model, parameters, schedule, communicator);
  const auto order = split.train.order(0);
  std::vector<double> times;
  std::uint64_t bytes = 0;
  for (int number = 0; number < kWarmUp + kMeasured; ++number) {
    const std::uint64_t before = communicator ? communicator->bytes() : 0;
    const auto begin = std::chrono::steady_clock::now();
    step.launch(number, split.train, order, false);
    step.collect();
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
    bytes = communicator ? communicator->bytes() - before : 0;
    if (number >= kWarmUp) times.push_back(spent.count());
  }
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], bytes};
}

/// One rank: its arguments are those of the program, and the file where rank 0 leaves what it measured.
void run_rank(const std::vector<std::string>& arguments) {
  Place place = place_of(process_environment()).value();
  Config config = bench_config(arguments[0], arguments[1], arguments[3]);
  if (config.run.device == "cpu") stay_on_core(place.local_rank);
  if (config.run.device == "cuda") config.run.device = fmt::format("cuda:{}", place.local_rank);
  const bool alone = arguments[2] == "0";  // no process group at all
  CommunicatorOptions options;
  options.device = device_of(config.run.device);
  const auto communicator = alone ? nullptr : std::make_unique<Communicator>(place, options);
  const StepCost cost = measure_step(config, communicator.get());
  if (communicator) communicator->leave();
  if (place.rank == 0) write_file_synced(arguments[4], fmt::format("{} {}", cost.milliseconds, cost.bytes));
}

/// `ranks` 0: one process without a process group.
StepCost measure_ranks(const std::string& model, const std::string& batch, int ranks, const std::string& regime) {
  const std::string result = fmt::format("/tmp/covnoise-bench-{}", ::getpid());
  LaunchOptions options;
  options.processes = std::max(1, ranks);
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                     "rank",
                     model,
                     batch,
                     std::to_string(ranks),
                     regime,
                     result};
  options.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  require(launch(options) == 0, "a rank failed");
  StepCost cost;
  std::istringstream(read_file(result)) >> cost.milliseconds >> cost.bytes;
  remove_tree(result);
  return cost;
}

void run_bench(const std::vector<std::string>& arguments) {
  const auto argument = [&](std::size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : std::string(otherwise);
  };
  const std::string model = argument(0, "resnet20"), batch = argument(1, "512");
  const int ranks = std::stoi(argument(2, "2"));
  std::istringstream regimes(argument(3, "lb,lb-diag"));
  for (std::string regime; std::getline(regimes, regime, ',');) {
    const StepCost alone = measure_ranks(model, batch, 0, regime),
                   together = measure_ranks(model, batch, ranks, regime);
    std::printf("%s\n",
                fmt::format("{} {} {:8} 1 process {:9.2f} ms   {} ranks {:9.2f} ms   speed-up {:.2f}   {} bytes a "
                            "step and rank",
                            model, batch, regime, alone.milliseconds, ranks, together.milliseconds,
                            alone.milliseconds / together.milliseconds, together.bytes)
                    .c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace covnoise

int main(int count, char** arguments) {
  try {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (!words.empty() && words[0] == "rank") {
      covnoise::run_rank({words.begin() + 1, words.end()});
    } else {
      covnoise::run_bench(words);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_distributed: %s\n", error.what());
    return 1;
  }
}
