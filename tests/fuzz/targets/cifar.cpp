#include "datasets/formats/cifar.h"

#include "fuzz.h"

FUZZ_TARGET(cifar, 8192) {
  const unsigned char choice = covnoise::fuzz::take_choice(input);
  const int classes = choice % 2 == 0 ? 10 : 100;
  const auto& file = covnoise::fuzz::input_file(input);
  const bool binary = choice / 2 % 2 == 0;
  if (binary) covnoise::read_cifar_binary({file}, classes);
  if (!binary) covnoise::read_cifar_python({file}, classes);
}
