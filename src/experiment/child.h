#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// A started program whose output goes to a file. Killed where it still runs when this object goes.
class Child {
 public:
  Child(const std::vector<std::string>& arguments, const std::filesystem::path& log);
  ~Child();
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(pid_, other.pid_);
    return *this;
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Its exit code once it has ended (128 + signal where one ended it); nothing while it runs.
  std::optional<int> poll();
  void signal(int number) const;

 private:
  pid_t pid_;
};

}  // namespace covnoise
