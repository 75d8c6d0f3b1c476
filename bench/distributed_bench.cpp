// A training step of several ranks, each on its own core: bytes handed to the process group per step (noise must not
// add any), and the speed of R ranks on R cores divided by that of one process on one core.
//   build/bench_distributed [model] [batch] [ranks] [regime,...] [buckets,...] [setting]
//   e.g. resnet20 512 2 lb,lb-diag 1,4
// With COVNOISE_BENCH_DEVICE=cuda each rank has a GPU and computes in bf16; 1 rank against no process group then shows
// the cost of the all-reduce, and four buckets against one the cost of splitting the captured passes. The time of
// all-reduces by size, with the constants of a ring (docs/scaling.md):
//   build/bench_distributed messages [ranks,...]
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/core/threads.h"
#include "covnoise/distributed/launch.h"
#include "covnoise/ops/device.h"
#include "covnoise/train/defaults.h"
#include "support/numbers.h"
#include "support/random_source.h"
#include "train/loop/initial_model.h"
#include "train/loop/training_run.h"

#include <fmt/format.h>
#include <sched.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace covnoise {
namespace {

constexpr int kWarmUp = 3, kMeasured = 9;
constexpr int kStepsOnGpu = 10;  // per measurement: the host does not wait between steps

struct StepCost {
  double milliseconds = 0;
  std::uint64_t bytes = 0;
};

std::string device_name() {
  const char* name = std::getenv("COVNOISE_BENCH_DEVICE");
  return name ? name : "cpu";
}

/// `setting`: another setting, such as train.micro_batch=256; may be empty.
Config bench_config(const std::string& model, const std::string& batch, const std::string& regime,
                    const std::string& setting) {
  std::vector<std::string> settings = {
      "model=" + model,       "regime=" + regime,
      "train.batch=" + batch, "run.device=" + device_name(),
      "train.lr=1e-4",        "noise.stop_after=1",
      "train.epochs=1000",    "train.precision=" + std::string(device_name() == "cpu" ? "fp32" : "bf16")};
  if (!setting.empty()) settings.push_back(setting);
  Config config = load_config(std::nullopt, settings);
  resolve_defaults(config);
  return config;
}

void stay_on_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  require(::sched_setaffinity(0, sizeof set, &set) == 0, fmt::format("there is no core {} for a rank", core));
  set_threads(1);
}

StepCost measure_step(const Config& config, Communicator* communicator, int buckets) {
  torch::manual_seed(1);
  const auto device = training_device(config);
  const DeviceStream stream(device);
  const auto source = bench::random_source(config.train.batch, 3, 32);
  const Split split = make_split(source, config);
  const Schedule schedule(config, split.train.size());
  const auto model = initial_model(config, source, device);
  model->train();
  FlatParameters parameters(*model);
  BucketOptions options;
  options.most = buckets;
  TrainingStep step(config, *model, parameters, schedule, communicator, options);
  const auto order = split.train.order(0);
  const int steps = device.is_cuda() ? kStepsOnGpu : 1;
  std::vector<double> times;
  std::uint64_t bytes = 0;
  for (int round = 0; round < kWarmUp + kMeasured; ++round) {
    const std::uint64_t before = communicator ? communicator->bytes() : 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) step.launch(round * steps + i, split.train, order, false);
    step.collect();
    const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
    bytes = communicator ? (communicator->bytes() - before) / static_cast<std::uint64_t>(steps) : 0;
    if (round >= kWarmUp) times.push_back(spent.count() / steps);
  }
  return {bench::median(times), bytes};
}

/// This process as the rank that the launcher assigned, on its core or GPU.
RankInfo take_rank(std::string& device) {
  const RankInfo info = rank_info_of(process_environment()).value();
  if (device == "cpu") stay_on_core(info.local_rank % static_cast<int>(std::thread::hardware_concurrency()));
  if (device == "cuda") device = fmt::format("cuda:{}", info.local_rank);
  return info;
}

/// One rank of a step: model, batch, ranks (0: no process group at all), regime, buckets, setting, and the file to
/// which rank 0 writes what it measured.
void run_rank(const std::vector<std::string>& arguments) {
  Config config = bench_config(arguments[0], arguments[1], arguments[3], arguments[5]);
  const RankInfo info = take_rank(config.run.device);
  CommunicatorOptions options;
  options.device = device_of(config.run.device);
  const auto communicator = arguments[2] == "0" ? nullptr : std::make_unique<Communicator>(info, options);
  const StepCost cost = measure_step(config, communicator.get(), std::stoi(arguments[4]));
  if (communicator) communicator->leave();
  if (info.rank == 0) write_file_synced(arguments[6], fmt::format("{} {}", cost.milliseconds, cost.bytes));
}

/// One rank of all-reduces of growing size; rank 0 writes bytes and microseconds of each: the median and the fastest.
void run_message_rank(const std::string& result) {
  constexpr std::int64_t kLargest = std::int64_t{64} << 20;
  std::string device = device_name(), lines;
  const RankInfo info = take_rank(device);
  CommunicatorOptions options;
  options.device = device_of(device);
  const DeviceStream stream(options.device);
  Communicator communicator(info, options);
  for (std::int64_t bytes = sizeof(float); bytes <= kLargest; bytes *= 4) {
    const auto message = torch::ones({bytes / static_cast<std::int64_t>(sizeof(float))}, options.device);
    const int times = bytes < (1 << 20) ? 201 : 15;
    std::vector<double> microseconds;
    for (int i = 0; i < times; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      communicator.all_reduce(message);
      synchronize(options.device);
      microseconds.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    const double fastest = *std::min_element(microseconds.begin(), microseconds.end());
    lines += fmt::format("{} {} {}\n", bytes, bench::median(microseconds), fastest);
  }
  communicator.leave();
  if (info.rank == 0) write_file_synced(result, lines);
}

/// Starts this program as `ranks` ranks with these arguments and a file name; returns what they wrote to the file.
std::string measured_by_ranks(int ranks, const std::vector<std::string>& arguments) {
  const std::string result = fmt::format("/tmp/covnoise-bench-{}", ::getpid());
  LaunchOptions options;
  options.processes = ranks;
  options.command = {std::filesystem::read_symlink("/proc/self/exe").string()};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  options.command.push_back(result);
  options.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  require(launch(options) == 0, "a rank failed");
  const std::string text = read_file(result);
  remove_tree(result);
  return text;
}

/// `ranks` 0: one process without a process group. `more`: regime, buckets, setting.
StepCost measure_ranks(const std::string& model, const std::string& batch, int ranks,
                       const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"rank", model, batch, std::to_string(ranks)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  StepCost cost;
  std::istringstream(measured_by_ranks(std::max(1, ranks), arguments)) >> cost.milliseconds >> cost.bytes;
  return cost;
}

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// The constants of a ring of R ranks, T(n) = 2 alpha + 2 (R-1)/R n beta, from the smallest and the
/// largest message.
std::string ring_constants(double ranks, double smallest, double bytes, double largest) {
  const double hops = std::max(1.0, 2 * (ranks - 1));
  return fmt::format("alpha {:.1f} us, 1/beta {:.2f} GB/s", smallest / hops,
                     hops / ranks * bytes / (largest - smallest) * 1e-3);
}

void run_messages(const std::string& list) {
  for (const auto& count : bench::words(list)) {
    std::istringstream lines(measured_by_ranks(std::stoi(count), {"message-rank"}));
    double bytes = 0, usual = 0, fastest = 0, first_usual = 0, first_fastest = 0;
    while (lines >> bytes >> usual >> fastest) {
      if (first_usual == 0) first_usual = usual, first_fastest = fastest;
      say(fmt::format("{} ranks {:>9.0f} bytes   median {:>10.1f} us   fastest {:>10.1f} us", count, bytes, usual,
                      fastest));
    }
    say(fmt::format("{} ranks: by medians {}; by the fastest {}", count,
                    ring_constants(std::stod(count), first_usual, bytes, usual),
                    ring_constants(std::stod(count), first_fastest, bytes, fastest)));
  }
}

void run_bench(const std::vector<std::string>& arguments) {
  const auto argument = [&](std::size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : std::string(otherwise);
  };
  if (argument(0, "") == "messages") return run_messages(argument(1, "2,4"));
  const std::string model = argument(0, "resnet20"), batch = argument(1, "512");
  const int ranks = std::stoi(argument(2, "2"));
  for (const auto& regime : bench::words(argument(3, "lb,lb-diag"))) {
    const StepCost alone = measure_ranks(model, batch, 0, {regime, "1", argument(5, "")});
    for (const auto& buckets : bench::words(argument(4, "1,4"))) {
      const StepCost together = measure_ranks(model, batch, ranks, {regime, buckets, argument(5, "")});
      const double speed = alone.milliseconds / together.milliseconds;
      say(fmt::format(
          "{} {} {:8} 1 process {:9.3f} ms   {} ranks, buckets {} {:9.3f} ms   speed-up {:.3f}   overhead of the "
          "all_reduce {:+.2f} %   {} bytes a step and rank",
          model, batch, regime, alone.milliseconds, ranks, buckets, together.milliseconds, speed,
          100 * (ranks / speed - 1), together.bytes));
    }
  }
}

}  // namespace
}  // namespace covnoise

int main(int count, char** arguments) {
  try {
    const std::vector<std::string> words(arguments + 1, arguments + count);
    if (!words.empty() && words[0] == "rank") {
      covnoise::run_rank({words.begin() + 1, words.end()});
    } else if (!words.empty() && words[0] == "message-rank") {
      covnoise::run_message_rank(words.at(1));
    } else {
      covnoise::run_bench(words);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_distributed: %s\n", error.what());
    return 1;
  }
}
