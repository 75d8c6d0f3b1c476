// The numpy objects in CIFAR's pickles: globals, calls and states are recognised by their structure, never executed.
#include "datasets/formats/pickle.h"

#include <fmt/format.h>

#include <string>

namespace covnoise {
namespace {

constexpr std::string_view kReconstruct = "numpy.core.multiarray _reconstruct";
constexpr std::string_view kNdarray = "numpy ndarray";
constexpr std::string_view kDtype = "numpy dtype";

}  // namespace

void Pickle::push_global() {
  const std::string_view module = take_line(), name = take_line();
  const std::string full = fmt::format("{} {}", module, name);
  for (const std::string_view known : {kReconstruct, kNdarray, kDtype}) {
    if (full == known) {
      push(Kind::kGlobal).bytes = known;
      return;
    }
  }
  refuse(fmt::format("global '{}.{}' is refused: only numpy's ndarray and dtype are read", module, name));
}

/// REDUCE would call a function. Two calls are recognised, and none is executed: _reconstruct(ndarray, (0,), 'b') makes
/// an empty array, dtype('u1', 0, 1) the type of its elements.
void Pickle::reduce() {
  const PickleObject& arguments = at(pop());
  const PickleObject& callee = at(pop());
  if (arguments.kind != Kind::kTuple || arguments.items.size() != 3 || callee.kind != Kind::kGlobal) {
    refuse("a call that CIFAR's files do not make is refused");
  }
  const PickleObject& first = at(arguments.items[0]);
  if (callee.bytes == kReconstruct && first.kind == Kind::kGlobal && first.bytes == kNdarray) {
    push(Kind::kArray);
  } else if (callee.bytes == kDtype && first.kind == Kind::kString && first.bytes == "u1") {
    push(Kind::kDtype);
  } else {
    refuse("a call that CIFAR's files do not make is refused (only arrays of type 'u1' are read)");
  }
}

void Pickle::build() {
  const PickleObject& state = at(pop());
  const std::uint32_t index = pop();
  stack_.push_back(index);
  PickleObject& object = objects_[index];
  if (state.kind != Kind::kTuple) refuse("the state of an object is not a tuple");
  if (object.kind == Kind::kDtype) {
    check_dtype_state(state);
  } else if (object.kind == Kind::kArray) {
    build_array(object, state);
  } else {
    refuse("only numpy's ndarray and dtype may have a state");
  }
}

/// (version, byte order, subtype, names, fields, element size, alignment, flags): irrelevant for single bytes, so
/// only structured types are refused.
void Pickle::check_dtype_state(const PickleObject& state) const {
  for (const std::uint32_t item : state.items) {
    const Kind kind = at(item).kind;
    const bool order = kind == Kind::kString && at(item).bytes.size() == 1;
    if (kind != Kind::kNone && kind != Kind::kInteger && !order) refuse("a structured numpy dtype is refused");
  }
}

/// (version, shape, dtype, fortran order, bytes)
void Pickle::build_array(PickleObject& array, const PickleObject& state) {
  if (!array.shape.empty()) refuse("an array is built twice");
  if (state.items.size() != 5) refuse(fmt::format("an array's state has {} parts, not 5", state.items.size()));
  const auto part = [&](std::size_t i) -> const PickleObject& { return at(state.items[i]); };
  const bool kinds = part(0).kind == Kind::kInteger && part(1).kind == Kind::kTuple && part(2).kind == Kind::kDtype &&
                     part(3).kind == Kind::kBool && part(4).kind == Kind::kString;
  if (!kinds) refuse("an array's state is not (version, shape, dtype, order, bytes)");
  const std::vector<std::uint32_t>& dimensions = part(1).items;
  if (dimensions.empty() || dimensions.size() > 4) refuse(fmt::format("an array of {} dimensions", dimensions.size()));
  const std::string_view elements = part(4).bytes;
  std::uint64_t left = elements.size();  // divided by each dimension in turn, it ends at 1: no product can overflow
  for (const std::uint32_t item : dimensions) {
    const PickleObject& size = at(item);
    const bool fits =
        size.kind == Kind::kInteger && size.integer > 0 && left % static_cast<std::uint64_t>(size.integer) == 0;
    if (!fits) refuse(fmt::format("an array's shape does not fit its {} bytes", elements.size()));
    left /= static_cast<std::uint64_t>(size.integer);
    array.shape.push_back(size.integer);
  }
  if (left != 1) refuse(fmt::format("an array's shape does not fit its {} bytes", elements.size()));
  array.bytes = elements;
}

}  // namespace covnoise
