#include "covnoise/distributed/environment.h"

#include "covnoise/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace covnoise {
namespace {

std::optional<RankInfo> rank_info_in(const std::map<std::string, std::string>& variables) {
  return rank_info_of([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Environment, OfNoLauncherHasNoRank) {
  EXPECT_FALSE(rank_info_in({{"PATH", "/bin"}}));
  // A shell inside an allocation, or a batch script: one process, not part of a job step.
  EXPECT_FALSE(rank_info_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(Environment, OfTorchrunMakesEveryRankAClient) {
  const auto info = rank_info_in({{"RANK", "5"},
                                  {"WORLD_SIZE", "8"},
                                  {"LOCAL_RANK", "1"},
                                  {"MASTER_ADDR", "node0"},
                                  {"MASTER_PORT", "1234"},
                                  {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                  {"TORCHELASTIC_RESTART_COUNT", "2"}});
  ASSERT_TRUE(info);
  EXPECT_EQ(info->rank, 5);
  EXPECT_EQ(info->size, 8);
  EXPECT_EQ(info->local_rank, 1);
  EXPECT_EQ(info->address, "node0");
  EXPECT_EQ(info->port, 1234);
  EXPECT_TRUE(info->agent_store);
  EXPECT_EQ(info->attempt, "2");
}

TEST(Environment, OfMpirunOnOneMachineNeedsNoAddress) {
  std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
  ASSERT_TRUE(rank_info_in(variables));
  EXPECT_EQ(rank_info_in(variables)->address, "127.0.0.1");
  EXPECT_EQ(rank_info_in(variables)->rank, 1);
  EXPECT_FALSE(rank_info_in(variables)->agent_store);
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  EXPECT_THAT([&] { rank_info_in(variables); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("set MASTER_ADDR")));
  variables["MASTER_ADDR"] = "node0";
  EXPECT_EQ(rank_info_in(variables)->address, "node0");
}

TEST(Environment, OfSrunMeetsAtTheFirstNode) {
  const auto info = rank_info_in({{"SLURM_PROCID", "3"},
                                  {"SLURM_STEP_NUM_TASKS", "8"},
                                  {"SLURM_LOCALID", "3"},
                                  {"SLURM_STEP_NODELIST", "gpu[003-004]"},
                                  {"SLURM_JOB_ID", "10007"}});
  ASSERT_TRUE(info);
  EXPECT_EQ(info->launcher, "srun");
  EXPECT_EQ(info->address, "gpu003");
  EXPECT_EQ(info->port, 29507);
}

TEST(Environment, FirstNodeOfSlurmsLists) {
  EXPECT_EQ(first_of_node_list("login"), "login");
  EXPECT_EQ(first_of_node_list("a1,b[2-3]"), "a1");
  EXPECT_EQ(first_of_node_list("gpu[09,11-12],x"), "gpu09");
  EXPECT_EQ(first_of_node_list("rack1-node[5]"), "rack1-node5");
}

TEST(Environment, NonsenseIsRefusedByName) {
  EXPECT_THAT(
      [] {
        rank_info_in({{"RANK", "4"}, {"WORLD_SIZE", "4"}});
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("RANK = \"4\" must be a number from 0 to 3")));
  EXPECT_THAT(
      [] {
        rank_info_in({{"RANK", "0"}, {"WORLD_SIZE", "two"}});
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("WORLD_SIZE")));
}

}  // namespace
}  // namespace covnoise
