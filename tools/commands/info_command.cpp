#include "build_info.h"
#include "commands/commands.h"
#include "covnoise/core/threads.h"
#include "covnoise/datasets/search.h"
#include "covnoise/ops/device.h"
#include "covnoise/ops/internal/gpu_info.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/cuda.h>
#include <torch/version.h>

#include <cstdio>
#include <memory>

namespace covnoise {
namespace {

void run(const std::string& data_dir) {
  set_threads(0);
  std::printf("covnoise   %s (%s, %s)\n", COVNOISE_VERSION, COVNOISE_BUILD_TYPE, COVNOISE_COMPILER);
  std::printf("commit     %s\n", build_commit());
  std::printf("LibTorch   %s\n", TORCH_VERSION);
  std::printf("threads    %d of %d processors\n", at::get_num_threads(), available_processors());
  std::printf("devices    cpu%s\n",
              torch::cuda::is_available() ? fmt::format(", {} cuda", torch::cuda::device_count()).c_str() : "");
  for (int i = 0; i < static_cast<int>(torch::cuda::device_count()); ++i) {
    const auto gpu = gpu_info(device_of(fmt::format("cuda:{}", i)));
    std::printf("cuda:%-5d %s (%s): %s\n", i, gpu->name.c_str(), gpu->architecture.c_str(),
                gpu->describe_kernels().c_str());
  }
  std::printf("data       searched in this order:\n");
  for (const auto& folder : data_search_places({data_dir})) std::printf("           %s\n", folder.string().c_str());
}

}  // namespace

void add_info_command(CLI::App& app) {
  auto data_dir = std::make_shared<std::string>();
  auto* command = app.add_subcommand("info", "Show the build, LibTorch, threads, devices and data folders");
  command->add_option("--data-dir", *data_dir, "folder of the data sets");
  command->callback([data_dir] { run(*data_dir); });
}

}  // namespace covnoise
