#pragma once
#include <functional>
#include <optional>
#include <string>

namespace covnoise {

/// The position of this process among the processes of one training.
struct RankInfo {
  std::string launcher;               ///< what started it: torchrun, mpirun, srun
  int rank = 0, size = 1;             ///< among all processes
  int local_rank = 0;                 ///< among those on this machine: which GPU to use
  std::string address = "127.0.0.1";  ///< of rank 0's machine
  int port = 29500;                   ///< where the processes meet on it
  bool agent_store = false;           ///< torchrun's agent listens there, and every rank is a client
  std::string attempt;                ///< distinguishes restarts that share an agent; otherwise empty
};

/// Returns the value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

/// Read from the launcher's variables; nothing if no launcher started this process. Supported are RANK, WORLD_SIZE,
/// LOCAL_RANK, MASTER_ADDR, MASTER_PORT (torchrun, covnoise launch, or set by hand), Open MPI's OMPI_COMM_WORLD_*,
/// PMI_* of MPICH and its relatives, and SLURM_* of a job step. MASTER_ADDR and MASTER_PORT apply to all of them. An
/// Error names a variable that is missing or invalid.
std::optional<RankInfo> rank_info_of(const Environment& environment);

/// The first machine of Slurm's list: "gpu[003-004,9],login" gives gpu003.
std::string first_of_node_list(const std::string& list);

}  // namespace covnoise
