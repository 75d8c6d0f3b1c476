#include "covnoise/train/internal/checkpoint.h"

#include "covnoise/core/internal/digest.h"
#include "fuzz.h"

#include <array>

namespace {

/// Cuts the input at the first two empty lines into three parts.
std::array<std::string_view, 3> checkpoint_parts(std::string_view input) {
  std::array<std::string_view, 3> parts;
  for (auto& part : parts) {
    const bool last = &part == &parts.back();
    const auto end = last ? input.size() : std::min(input.find("\n\n"), input.size());
    part = input.substr(0, end);
    input.remove_prefix(std::min(end + 2, input.size()));
  }
  return parts;
}

}  // namespace

// The three files of a checkpoint, behind the right checksums.
FUZZ_TARGET(checkpoint, 2048) {
  using covnoise::fuzz::MemoryFile;
  static const std::filesystem::path folder = "input/step-00000001";
  static MemoryFile files[] = {MemoryFile(folder / "state.json"), MemoryFile(folder / "model.safetensors"),
                               MemoryFile(folder / "optimizer.safetensors")};
  static MemoryFile sums(folder / "SHA256SUMS");
  const auto parts = checkpoint_parts(input);
  std::string text;
  for (const int i : {1, 2, 0}) {
    const auto part = parts[static_cast<std::size_t>(i)];
    files[i].write(part);
    text += covnoise::sha256_hex(part) + "  " + files[i].path().filename().string() + "\n";
  }
  sums.write(text);
  covnoise::CheckpointStore::load(sums.path().parent_path());
}
