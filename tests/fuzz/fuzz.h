#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

// A target is one file in targets/:
//
//   FUZZ_TARGET(png, 4096) { decode_image(std::string(input), "input"); }
//
// It gives `input` to a parser under the name "input". The parser may accept it or throw an Error that names the file;
// any other exception, a sanitizer's report, 10 s or 2 GB for one input are findings. Seeds are in corpus/TARGET/.

namespace covnoise::fuzz {

struct Target {
  const char* name;
  std::size_t longest;  // bytes of an input
  void (*run)(std::string_view input);
};

/// Adds a target to the program; called before main.
bool add_target(const Target& target);

/// A file of any name whose content lies in memory: for parsers that take a path.
class MemoryFile {
 public:
  /// A link `name` in a folder of this process to the content.
  explicit MemoryFile(const std::filesystem::path& name);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view bytes);
  const std::filesystem::path& path() const { return path_; }

 private:
  int descriptor_;
  std::filesystem::path path_;
};

/// The content of "input" in a file; returns its path.
const std::filesystem::path& input_file(std::string_view bytes);

/// Takes the first byte off the input, which chooses between variants; 0 if there is none.
unsigned char take_choice(std::string_view& input);

/// Stops the program with a finding.
[[noreturn]] void finding(const std::string& what);

/// A finding unless `good`: for what must hold of everything that a parser accepts.
inline void expect(bool good, const char* what) {
  if (!good) finding(what);
}

}  // namespace covnoise::fuzz

#define FUZZ_TARGET(NAME, LONGEST)                                                                               \
  static void fuzz_##NAME(std::string_view input);                                                               \
  [[maybe_unused]] static const bool added_##NAME = ::covnoise::fuzz::add_target({#NAME, LONGEST, fuzz_##NAME}); \
  static void fuzz_##NAME([[maybe_unused]] std::string_view input)
