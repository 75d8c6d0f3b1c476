#include "fuzz.h"

#include "covnoise/core/error.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace covnoise::fuzz {
namespace {

std::vector<Target>& targets() {
  static std::vector<Target> all;
  return all;
}

const Target* chosen = nullptr;

/// One for this process, removed at its end.
const std::filesystem::path& folder() {
  static const std::filesystem::path path = [] {
    std::string name = (std::filesystem::temp_directory_path() / "covnoise-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) finding("no temporary folder " + name);
    return name;
  }();
  return path;
}

}  // namespace

void finding(const std::string& what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

bool add_target(const Target& target) {
  targets().push_back(target);
  return true;
}

MemoryFile::MemoryFile(const std::filesystem::path& name)
    : descriptor_(::memfd_create("input", 0)), path_(folder() / name) {
  std::filesystem::create_directories(path_.parent_path());
  const std::string content = "/proc/self/fd/" + std::to_string(descriptor_);
  if (descriptor_ < 0 || ::symlink(content.c_str(), path_.c_str()) != 0) finding("no file in memory");
}

void MemoryFile::write(std::string_view bytes) {
  const bool good = ::ftruncate(descriptor_, static_cast<off_t>(bytes.size())) == 0 &&
                    ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
  if (!good) finding("cannot write a file in memory");
}

const std::filesystem::path& input_file(std::string_view bytes) {
  static MemoryFile file("input");
  file.write(bytes);
  return file.path();
}

unsigned char take_choice(std::string_view& input) {
  if (input.empty()) return 0;
  const auto choice = static_cast<unsigned char>(input.front());
  input.remove_prefix(1);
  return choice;
}

}  // namespace covnoise::fuzz

/// The program's name is fuzz_TARGET; without a target it lists them with the longest input of each.
extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
  using namespace covnoise::fuzz;
  const std::string name = std::filesystem::path((*arguments)[0]).filename().string();
  for (const auto& target : targets()) {
    if (name == std::string("fuzz_") + target.name) chosen = &target;
  }
  if (chosen) return 0;
  for (const auto& target : targets()) std::printf("%s %zu\n", target.name, target.longest);
  std::exit(name == "fuzz" ? 0 : 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace covnoise::fuzz;
  try {
    chosen->run({reinterpret_cast<const char*>(data), size});
  } catch (const covnoise::Error& error) {
    if (!std::strstr(error.what(), "input")) finding(std::string("the message names no file: ") + error.what());
  }
  return 0;
}
