#include "covnoise/nn/flat_parameters.h"

#include "support/small_networks.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

TEST(FlatParameters, KeepsValuesAndGathersGradients) {
  const auto network = testing::make_small_network("convolution", at::kDouble);
  const auto before = testing::flattened(network->parameters());
  FlatParameters parameters(*network);
  EXPECT_EQ(parameters.count(), before.numel());
  EXPECT_TRUE(testing::flattened(parameters.views(parameters.values())).equal(before));
  const auto examples = testing::make_examples(*network, 3, at::kDouble);
  testing::losses_of(network->forward(examples.images), examples.labels).sum().backward();
  EXPECT_TRUE(testing::flattened(parameters.views(parameters.gradient()))
                  .allclose(testing::contributions(*network, examples).sum(0), 1e-10, 1e-12));
}

TEST(FlatParameters, AlignsEveryParameterAndClearsGaps) {
  const auto network = testing::make_small_network("mlp", at::kFloat);
  FlatParameters parameters(*network);
  std::int64_t expected = 0;
  for (const auto& entry : parameters.entries()) {
    EXPECT_EQ(entry.offset % 16, 0);
    EXPECT_EQ(entry.offset, expected);
    expected = (entry.offset + entry.numel + 15) / 16 * 16;
  }
  auto ones = torch::ones_like(parameters.values());
  parameters.clear_gaps(ones);
  EXPECT_EQ(ones.sum().item<double>(), static_cast<double>(parameters.count()));
}

TEST(FlatParameters, PartsShareTheMemoryOfTheWhole) {
  const auto network = testing::make_small_network("convolution", at::kDouble);
  FlatParameters parameters(*network);
  const auto middle = parameters.slice(1, 3), last = middle.slice(1, 2);
  EXPECT_EQ(middle.first_element(), parameters.entries()[1].offset);
  EXPECT_EQ(middle.size(), parameters.entries()[3].offset - parameters.entries()[1].offset);
  EXPECT_EQ(last.first_entry(), 2u);
  EXPECT_EQ(last.count(), parameters.entries()[2].numel);
  const auto expected = parameters.view(parameters.values(), parameters.entries()[2]);
  EXPECT_TRUE(last.view(last.values(), last.entries()[0]).is_alias_of(expected));
  EXPECT_TRUE(last.view(last.values(), last.entries()[0]).equal(expected));
  EXPECT_TRUE(middle.view(middle.slice_of(parameters.values()), middle.entries()[1]).equal(expected));
}

}  // namespace
}  // namespace covnoise
