#include "covnoise/distributed/environment.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <cstdlib>

namespace covnoise {
namespace {

constexpr int kLastPort = 65535;

/// One launcher's names of the variables.
struct Names {
  const char *launcher, *rank, *size, *local_rank, *local_size;
};
constexpr Names kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // Those of the job step, not of the job: a shell inside an allocation is one process.
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
};

int number(const std::string& name, const std::string& text, int least, int most) {
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  require(!text.empty() && *end == '\0' && value >= least && value <= most,
          fmt::format("the environment variable {} = \"{}\" must be a number from {} to {}", name, text, least, most));
  return static_cast<int>(value);
}

int number_or(const Environment& environment, const char* name, int otherwise, int most) {
  const auto text = name ? environment(name) : std::nullopt;
  return text ? number(name, *text, 0, most) : otherwise;
}

/// Derived from the job, so that two jobs on one machine use different ports.
int default_port(const Environment& environment) {
  constexpr int kFirst = 29500, kCount = 10000;
  const auto job = environment("SLURM_JOB_ID");
  return job ? kFirst + static_cast<int>(std::strtoul(job->c_str(), nullptr, 10) % kCount) : kFirst;
}

std::string default_address(const Environment& environment, const Names& names, const RankInfo& info) {
  if (const auto nodes = environment("SLURM_STEP_NODELIST")) return first_of_node_list(*nodes);
  require(number_or(environment, names.local_size, 0, info.size) == info.size || info.size == 1,
          fmt::format("{} started {} processes on several machines: set MASTER_ADDR to the address of rank 0's machine",
                      info.launcher, info.size));
  return "127.0.0.1";
}

}  // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

std::string first_of_node_list(const std::string& list) {
  const auto bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const auto digits = list.substr(bracket + 1, list.find_first_of(",-]", bracket) - bracket - 1);
  return list.substr(0, bracket) + digits;
}

std::optional<RankInfo> rank_info_of(const Environment& environment) {
  for (const auto& names : kLaunchers) {
    const auto rank = environment(names.rank), size = environment(names.size);
    if (!rank || !size) continue;
    RankInfo info;
    info.launcher = names.launcher;
    info.size = number(names.size, *size, 1, 1 << 20);
    info.rank = number(names.rank, *rank, 0, info.size - 1);
    info.local_rank = number_or(environment, names.local_rank, 0, info.size - 1);
    const auto address = environment("MASTER_ADDR");
    info.address = address ? *address : default_address(environment, names, info);
    info.port = number_or(environment, "MASTER_PORT", default_port(environment), kLastPort);
    info.agent_store = environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
    if (info.agent_store) info.attempt = environment("TORCHELASTIC_RESTART_COUNT").value_or("0");
    return info;
  }
  return std::nullopt;
}

}  // namespace covnoise
