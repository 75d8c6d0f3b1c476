#pragma once
#include <string>
#include <vector>

namespace covnoise {

// Names of the classes in label order.
std::vector<std::string> digit_names();
std::vector<std::string> fashion_names();
std::vector<std::string> cifar10_names();
std::vector<std::string> cifar100_names();  // the fine labels

}  // namespace covnoise
