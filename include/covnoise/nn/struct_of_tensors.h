#pragma once
#include <ATen/core/Tensor.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace covnoise {

/// A struct of tensors, such as `struct Batch { at::Tensor tokens, mask, labels; };`, as a list of them and back. It
/// must be an aggregate of one to six tensors and nothing else.
namespace struct_of_tensors {

/// Stands for any field.
struct AnyTensor {
  operator at::Tensor() const;  // NOLINT(google-explicit-constructor): never called
};

template <std::size_t>
using Nth = AnyTensor;

template <class Struct, std::size_t... I>
auto can_have(std::index_sequence<I...>) -> decltype(Struct{Nth<I>{}...}, std::true_type{});
template <class Struct>
std::false_type can_have(...);

template <class Struct, std::size_t kCount>
constexpr std::size_t count_up_to() {
  if constexpr (kCount == 0) {
    return 0;
  } else if constexpr (decltype(can_have<Struct>(std::make_index_sequence<kCount>{}))::value) {
    return kCount;
  } else {
    return count_up_to<Struct, kCount - 1>();
  }
}

/// Number of fields, up to seven.
template <class Struct>
constexpr std::size_t kFields = count_up_to<Struct, 7>();

}  // namespace struct_of_tensors

template <class Struct>
std::vector<at::Tensor> tensors_of(const Struct& batch) {
  constexpr std::size_t kCount = struct_of_tensors::kFields<Struct>;
  static_assert(std::is_aggregate_v<Struct> && kCount >= 1 && kCount <= 6,
                "a batch is a struct of one to six tensors and nothing else");
  if constexpr (kCount == 1) {
    const auto& [a] = batch;
    return {a};
  } else if constexpr (kCount == 2) {
    const auto& [a, b] = batch;
    return {a, b};
  } else if constexpr (kCount == 3) {
    const auto& [a, b, c] = batch;
    return {a, b, c};
  } else if constexpr (kCount == 4) {
    const auto& [a, b, c, d] = batch;
    return {a, b, c, d};
  } else if constexpr (kCount == 5) {
    const auto& [a, b, c, d, e] = batch;
    return {a, b, c, d, e};
  } else {
    const auto& [a, b, c, d, e, f] = batch;
    return {a, b, c, d, e, f};
  }
}

template <class Struct, std::size_t... I>
Struct struct_of(const std::vector<at::Tensor>& tensors, std::index_sequence<I...>) {
  return Struct{tensors[I]...};
}

/// The inverse of tensors_of.
template <class Struct>
Struct struct_of(const std::vector<at::Tensor>& tensors) {
  constexpr std::size_t kCount = struct_of_tensors::kFields<Struct>;
  TORCH_CHECK(tensors.size() == kCount, "a batch of ", kCount, " tensors cannot be made of ", tensors.size());
  return struct_of<Struct>(tensors, std::make_index_sequence<kCount>{});
}

}  // namespace covnoise
