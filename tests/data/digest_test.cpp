#include "covnoise/data/internal/digest.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

DataSource two_images() {
  DataSource source;
  source.train = {at::arange(8, at::kByte).reshape({2, 1, 2, 2}), at::tensor({0, 1}, at::kLong)};
  source.test = {at::zeros({1, 1, 2, 2}, at::kByte), at::zeros({1}, at::kLong)};
  return source;
}

/// The expected digest was computed with Python's hashlib.
TEST(DataDigest, IsThatOfShapesAndBytes) {
  EXPECT_EQ(data_digest(two_images()), "e0ea84b8c8a5c5cda111a779df59a3e8acfbb80b98ac5f7f9bf1391b5545ad74");
}

TEST(DataDigest, DependsOnEveryPartButNotOnTheName) {
  const std::string digest = data_digest(two_images());
  auto source = two_images();
  source.name = "another";
  EXPECT_EQ(data_digest(source), digest);
  for (at::Tensor Dataset::*part : {&Dataset::images, &Dataset::labels}) {
    for (Dataset DataSource::*split : {&DataSource::train, &DataSource::test}) {
      auto other = two_images();
      (other.*split.*part).flatten()[0] += 1;
      EXPECT_NE(data_digest(other), digest);
    }
  }
  source.train.images = source.train.images.reshape({2, 1, 1, 4});
  EXPECT_NE(data_digest(source), digest);
}

}  // namespace
}  // namespace covnoise
