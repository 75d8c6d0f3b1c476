#include "datasets/procedural/procedural.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <utility>

namespace covnoise {
namespace {

/// 255 x rounded to the nearest integer. std::lround is libm's, and differs where the addition of 1/2 itself rounds up.
std::uint8_t to_byte(float x) {
  const float raised = clamp_unit(x) * 255.0f + 0.5f;
  return static_cast<std::uint8_t>(raised);
}

enum Split : std::uint32_t { kTrain = 0, kTest = 1 };

Dataset draw_split(const Procedure& procedure, Split split, std::int64_t examples) {
  const auto classes = static_cast<std::int64_t>(procedure.classes.size());
  const std::int64_t numel = procedure.channels * procedure.side * procedure.side;
  const RandomStream stream{procedure.seed, Purpose::kData, split};
  Dataset dataset{at::empty({examples, procedure.channels, procedure.side, procedure.side}, at::kByte),
                  at::arange(examples, at::kLong).remainder(classes)};
  auto* bytes = dataset.images.data_ptr<std::uint8_t>();
  at::parallel_for(0, examples, /*grain_size=*/64, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> pixels(static_cast<std::size_t>(numel));
    for (std::int64_t i = begin; i < end; ++i) {
      Dice dice(stream, static_cast<std::uint64_t>(i));
      procedure.draw(static_cast<int>(i % classes), dice, pixels.data());
      for (std::int64_t k = 0; k < numel; ++k) {
        bytes[i * numel + k] = to_byte(pixels[static_cast<std::size_t>(k)]);
      }
    }
  });
  return dataset;
}

}  // namespace

Warp::Warp(Dice& dice, float strength, float wavelength) {
  for (int axis = 0; axis < 2; ++axis) {
    strength_[axis] = dice.uniform(-strength, strength);
    for (float& frequency : frequency_[axis]) frequency = dice.uniform(-1.0f, 1.0f) / wavelength;
    phase_[axis] = dice.uniform(0.0f, 1.0f);
  }
}

Point Warp::operator()(Point p) const {
  const auto wave = [&](int axis) {
    return strength_[axis] * sine(frequency_[axis][0] * p.x + frequency_[axis][1] * p.y + phase_[axis]);
  };
  return {p.x + wave(0), p.y + wave(1)};
}

DataSource make_procedural(const Procedure& procedure) {
  DataSource source;
  source.name = procedure.name;
  source.train = draw_split(procedure, kTrain, procedure.train);
  source.test = draw_split(procedure, kTest, procedure.test);
  source.classes = procedure.classes;
  ChannelStatistics statistics = channel_statistics(source.train.images);
  source.mean = std::move(statistics.mean);
  source.std = std::move(statistics.std);
  return source;
}

}  // namespace covnoise
