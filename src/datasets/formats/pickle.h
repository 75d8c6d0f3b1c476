#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace covnoise {

/// One object of a pickle. Objects refer to each other by their index in Pickle's list: nothing recurses, a list may
/// contain itself, and all are freed together.
struct PickleObject {
  enum class Kind { kNone, kBool, kInteger, kString, kTuple, kList, kDict, kGlobal, kDtype, kArray };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;          // kBool, kInteger
  std::string_view bytes;            // kString: its text; kArray: its elements; kGlobal: "module name"
  std::vector<std::uint32_t> items;  // kTuple, kList; kDict: key, value, key, value ...
  std::vector<std::int64_t> shape;   // kArray of uint8, once built
};

/// Reads the pickles of CIFAR's python form: protocol 2, written by Python 2, holding dictionaries, lists, tuples,
/// strings, small integers and C-ordered numpy arrays of uint8. It supports only the opcodes of those files and
/// calls nothing: the three numpy globals are recognised as data. Everything else is refused, with its opcode and byte.
class Pickle {
 public:
  /// `bytes` must outlive this object; `where` names the file in messages.
  Pickle(std::string_view bytes, std::string where);

  const PickleObject& root() const { return objects_[root_]; }
  const PickleObject& at(std::uint32_t index) const { return objects_[index]; }
  /// The value of a string key of a dictionary, or null.
  const PickleObject* find(const PickleObject& dict, std::string_view key) const;

 private:
  using Kind = PickleObject::Kind;

  [[noreturn]] void refuse(const std::string& what) const;
  std::string_view take(std::uint64_t size);
  std::string_view take_line();
  std::uint64_t take_unsigned(int bytes);

  void run();
  bool step(std::uint8_t opcode);
  bool push_scalar(std::uint8_t opcode);
  bool collect(std::uint8_t opcode);
  bool use_memo(std::uint8_t opcode);
  PickleObject& push(Kind kind);
  void push_integer(Kind kind, std::int64_t value);
  std::uint32_t pop();
  std::vector<std::uint32_t> pop_to_mark();
  std::vector<std::uint32_t> pop_several(std::size_t count);
  PickleObject& top(Kind expected, const char* what);
  void extend(Kind kind, std::vector<std::uint32_t> items);
  void push_tuple(std::vector<std::uint32_t> items);
  void push_global();
  void reduce();
  void build();
  void build_array(PickleObject& array, const PickleObject& state);
  void check_dtype_state(const PickleObject& state) const;

  std::string_view bytes_;
  std::string where_;
  std::uint64_t position_ = 0, opcode_at_ = 0;
  std::deque<PickleObject> objects_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;  // heights of the stack
  std::unordered_map<std::uint32_t, std::uint32_t> memo_;
  std::uint32_t root_ = 0;
};

}  // namespace covnoise
