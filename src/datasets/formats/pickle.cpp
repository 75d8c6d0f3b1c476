#include "datasets/formats/pickle.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>

#include <utility>

namespace covnoise {
namespace {

// CIFAR-100's training file has 150,001 list items and 50,000 memo entries; these limits are above that, and keep a
// hostile file from exhausting the memory.
constexpr std::size_t kMostObjects = 1'000'000;
constexpr std::size_t kMostItems = 4'000'000;
constexpr std::uint64_t kMostMemo = 1'000'000;
constexpr std::size_t kMostMarks = 64;
constexpr std::size_t kLongestName = 64;

// clang-format off
enum Opcode : std::uint8_t {
  kMark = '(', kStop = '.', kNone = 'N', kReduce = 'R', kBuild = 'b', kGlobal = 'c', kEmptyDict = '}', kEmptyList = ']',
  kAppend = 'a', kAppends = 'e', kSetItem = 's', kSetItems = 'u', kTuple = 't', kTuple1 = 0x85, kTuple2 = 0x86,
  kTuple3 = 0x87, kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kBinString = 'T', kShortBinString = 'U',
  kBinGet = 'h', kLongBinGet = 'j', kBinPut = 'q', kLongBinPut = 'r', kProto = 0x80, kNewFalse = 0x89,
};
// clang-format on

}  // namespace

Pickle::Pickle(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) { run(); }

void Pickle::refuse(const std::string& what) const {
  throw Error(fmt::format("{}: byte {}: {}", where_, opcode_at_, what));
}

std::string_view Pickle::take(std::uint64_t size) {
  const std::uint64_t left = bytes_.size() - position_;
  if (size > left) refuse(fmt::format("{} bytes are needed here, but the file has only {} more", size, left));
  const std::string_view taken = bytes_.substr(position_, size);
  position_ += size;
  return taken;
}

std::string_view Pickle::take_line() {
  const std::size_t end = bytes_.substr(position_, kLongestName + 1).find('\n');
  if (end == std::string_view::npos) refuse("a name without an end");
  const std::string_view line = take(end);
  take(1);
  return line;
}

std::uint64_t Pickle::take_unsigned(int bytes) {
  std::uint64_t value = 0;
  int shift = 0;
  for (const char c : take(static_cast<std::uint64_t>(bytes))) {
    value |= std::uint64_t{static_cast<std::uint8_t>(c)} << shift;
    shift += 8;
  }
  return value;
}

void Pickle::run() {
  if (take_unsigned(1) != kProto) refuse("not a pickle of protocol 2 (it does not begin with 0x80 0x02)");
  const std::uint64_t protocol = take_unsigned(1);
  if (protocol != 2) refuse(fmt::format("pickle protocol {}; only protocol 2 is read", protocol));
  for (;;) {
    opcode_at_ = position_;
    const auto opcode = static_cast<std::uint8_t>(take_unsigned(1));
    if (opcode == kStop) break;
    if (!step(opcode)) {
      const std::string shown = opcode > ' ' && opcode < 0x7f ? fmt::format(" '{}'", static_cast<char>(opcode)) : "";
      refuse(fmt::format("pickle opcode {:#04x}{} is not one that CIFAR's files use: refused", opcode, shown));
    }
    if (objects_.size() > kMostObjects) refuse(fmt::format("more than {} objects", kMostObjects));
    if (stack_.size() > kMostItems) refuse(fmt::format("more than {} objects on the stack", kMostItems));
  }
  root_ = pop();
  if (!stack_.empty() || !marks_.empty()) refuse("the pickle stops with objects left over");
  opcode_at_ = position_;
  if (position_ != bytes_.size()) refuse("extra bytes after the end of the pickle");
}

bool Pickle::step(std::uint8_t opcode) {
  if (push_scalar(opcode) || collect(opcode) || use_memo(opcode)) return true;
  switch (opcode) {
    case kGlobal:
      push_global();
      return true;
    case kReduce:
      reduce();
      return true;
    case kBuild:
      build();
      return true;
    default:
      return false;
  }
}

bool Pickle::push_scalar(std::uint8_t opcode) {
  switch (opcode) {
    case kNone:
      push(Kind::kNone);
      return true;
    case kNewFalse:
      push_integer(Kind::kBool, 0);
      return true;
    case kBinInt:
      push_integer(Kind::kInteger, static_cast<std::int32_t>(take_unsigned(4)));
      return true;
    case kBinInt1:
      push_integer(Kind::kInteger, static_cast<std::int64_t>(take_unsigned(1)));
      return true;
    case kBinInt2:
      push_integer(Kind::kInteger, static_cast<std::int64_t>(take_unsigned(2)));
      return true;
    case kShortBinString: {
      const auto text = take(take_unsigned(1));
      push(Kind::kString).bytes = text;
      return true;
    }
    case kBinString: {
      const auto text = take(take_unsigned(4));
      push(Kind::kString).bytes = text;
      return true;
    }
    default:
      return false;
  }
}

bool Pickle::collect(std::uint8_t opcode) {
  switch (opcode) {
    case kMark:
      if (marks_.size() == kMostMarks) refuse(fmt::format("nested deeper than {}", kMostMarks));
      marks_.push_back(stack_.size());
      return true;
    case kEmptyDict:
      push(Kind::kDict);
      return true;
    case kEmptyList:
      push(Kind::kList);
      return true;
    case kTuple:
      push_tuple(pop_to_mark());
      return true;
    case kTuple1:
      push_tuple(pop_several(1));
      return true;
    case kTuple2:
      push_tuple(pop_several(2));
      return true;
    case kTuple3:
      push_tuple(pop_several(3));
      return true;
    case kAppend:
      extend(Kind::kList, pop_several(1));
      return true;
    case kAppends:
      extend(Kind::kList, pop_to_mark());
      return true;
    case kSetItem:
      extend(Kind::kDict, pop_several(2));
      return true;
    case kSetItems:
      extend(Kind::kDict, pop_to_mark());
      return true;
    default:
      return false;
  }
}

bool Pickle::use_memo(std::uint8_t opcode) {
  const bool put = opcode == kBinPut || opcode == kLongBinPut;
  if (!put && opcode != kBinGet && opcode != kLongBinGet) return false;
  const std::uint64_t index = take_unsigned(opcode == kBinPut || opcode == kBinGet ? 1 : 4);
  if (index > kMostMemo) refuse(fmt::format("memo index {}; at most {} is read", index, kMostMemo));
  const auto key = static_cast<std::uint32_t>(index);
  if (put) {
    const std::uint32_t object = pop();
    memo_[key] = object;
    stack_.push_back(object);
    return true;
  }
  const auto found = memo_.find(key);
  if (found == memo_.end()) refuse(fmt::format("memo index {} was never stored", index));
  stack_.push_back(found->second);
  return true;
}

PickleObject& Pickle::push(Kind kind) {
  stack_.push_back(static_cast<std::uint32_t>(objects_.size()));
  objects_.emplace_back();
  objects_.back().kind = kind;
  return objects_.back();
}

void Pickle::push_integer(Kind kind, std::int64_t value) { push(kind).integer = value; }

void Pickle::push_tuple(std::vector<std::uint32_t> items) { push(Kind::kTuple).items = std::move(items); }

std::uint32_t Pickle::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("an object is needed here, but there is none");
  const std::uint32_t object = stack_.back();
  stack_.pop_back();
  return object;
}

std::vector<std::uint32_t> Pickle::pop_several(std::size_t count) {
  std::vector<std::uint32_t> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  return items;
}

std::vector<std::uint32_t> Pickle::pop_to_mark() {
  if (marks_.empty()) refuse("a mark is needed here, but there is none");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<std::uint32_t> items(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return items;
}

PickleObject& Pickle::top(Kind expected, const char* what) {
  const std::uint32_t index = pop();
  stack_.push_back(index);
  if (objects_[index].kind != expected) refuse(fmt::format("{} is needed here", what));
  return objects_[index];
}

void Pickle::extend(Kind kind, std::vector<std::uint32_t> items) {
  const bool dict = kind == Kind::kDict;
  PickleObject& target = top(kind, dict ? "a dictionary" : "a list");
  if (dict && items.size() % 2 != 0) refuse("a dictionary key without a value");
  if (target.items.size() + items.size() > kMostItems) refuse(fmt::format("more than {} items", kMostItems));
  target.items.insert(target.items.end(), items.begin(), items.end());
}

const PickleObject* Pickle::find(const PickleObject& dict, std::string_view key) const {
  const PickleObject* found = nullptr;  // the last one wins, as in Python
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleObject& candidate = at(dict.items[i]);
    if (candidate.kind == Kind::kString && candidate.bytes == key) found = &at(dict.items[i + 1]);
  }
  return found;
}

}  // namespace covnoise
