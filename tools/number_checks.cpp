#include "number_checks.h"

#include <fmt/format.h>

#include <cstdlib>

namespace covnoise {
namespace {

template <class Good>
CLI::Validator number_check(const char* name, const char* wanted, const Good& good) {
  return {[wanted, good](std::string& text) -> std::string {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool number = !text.empty() && *end == '\0';
            return number && good(value) ? "" : fmt::format("'{}' is not {}", text, wanted);
          },
          name};
}

}  // namespace

CLI::Validator above_zero() {
  return number_check("ABOVE 0", "a number above 0", [](double value) { return value > 0; });
}

CLI::Validator at_least_zero() {
  return number_check("AT LEAST 0", "a number of at least 0", [](double value) { return value >= 0; });
}

}  // namespace covnoise
