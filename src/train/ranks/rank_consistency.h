#pragma once
#include "covnoise/data/dataset.h"
#include "covnoise/distributed/communicator.h"
#include "covnoise/train/config.h"

#include <string>
#include <vector>

namespace covnoise {

/// The version of this program.
std::string program_version();

/// An Error on every rank that names the first rank whose program or configuration differs from rank 0's, and how.
void refuse_other_training(Communicator& communicator, const Config& config,
                           const std::string& version = program_version());

/// The same for the bytes of the data set.
void refuse_other_data(Communicator& communicator, const std::string& name, const std::string& digest);

}  // namespace covnoise
