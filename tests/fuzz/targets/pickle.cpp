#include "datasets/formats/pickle.h"

#include "fuzz.h"

FUZZ_TARGET(pickle, 1024) {
  using namespace covnoise;
  const Pickle pickle(input, "input");
  if (pickle.root().kind == PickleObject::Kind::kDict) pickle.find(pickle.root(), "data");
}
