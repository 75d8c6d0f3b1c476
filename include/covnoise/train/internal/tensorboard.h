#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace covnoise {

/// CRC-32C (Castagnoli) of `bytes`.
std::uint32_t crc32c(std::string_view bytes);

/// One TFRecord: length, masked CRC of the length, data, masked CRC of the data.
std::string tensorboard_record(std::string_view data);

/// The first record of an event file.
std::string tensorboard_header(double wall_time);

/// A record of scalars at one step. `wall_time` in seconds since 1970.
std::string tensorboard_scalars(double wall_time, std::int64_t step,
                                const std::vector<std::pair<std::string, float>>& scalars);

/// A record for the dashboard of hyperparameters: keys with their values as TOML writes them.
std::string tensorboard_hparams(double wall_time, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace covnoise
