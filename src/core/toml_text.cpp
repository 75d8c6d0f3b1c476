#include "covnoise/core/internal/toml_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace covnoise {
namespace {

constexpr int kMostParts = 32;

bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return (code < 0x20 && c != '\t' && c != '\n' && c != '\r') || code == 0x7f;
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// Goes through the text as far as to know what is in quotes and what is a comment.
class TomlScan {
 public:
  explicit TomlScan(std::string_view text) : text_(text) {}

  /// What is wrong, with at() its place.
  const char* problem() {
    if (text_.size() > kLargestToml) return "more than 1 MiB";
    if (starts("\xEF\xBB\xBF")) at_ = 3;  // byte order mark
    while (at_ < text_.size()) {
      if (const char* what = step()) return what;
    }
    return nullptr;
  }
  std::size_t at() const { return at_; }

 private:
  bool starts(std::string_view with) const { return text_.compare(at_, with.size(), with) == 0; }

  /// Outside of quotes: one character, one text in quotes or one comment.
  const char* step() {
    const char c = text_[at_];
    if (c == '#') return skip([](char next) { return next == '\n'; }, false, "");
    for (const std::string_view quotes : {"\"\"\"", "'''", "\"", "'"}) {
      if (starts(quotes)) return in_word_ && before() != '.' ? "a quote inside a word" : text_in(quotes);
    }
    if (is_control(c)) return "a control character";
    if (!is_ascii(c)) return "a character that must be in quotes";
    if (c == '.' && ++dots_ > kMostParts) return "a key of too many parts";
    if (const char* what = structure(c)) return what;
    ++at_;
    return nullptr;
  }

  /// Follows words, brackets and equals signs: toml++ reads a bare value up to a space, a comma or a closing bracket,
  /// whatever else is in it.
  const char* structure(char c) {
    const bool opens = c == '[' || c == '{';
    if (in_word_ && opens) return "a bracket inside a word";
    if (opens) open_.push_back({c, false});
    if ((c == ']' || c == '}') && open_.size() > 1) open_.pop_back();
    if (c == '=') {
      if (open_.back().bracket == '[' || open_.back().equals) return "an equals sign in a value";
      open_.back().equals = true;
    }
    if ((c == ',' && open_.back().bracket == '{') || (c == '\n' && open_.size() == 1)) open_.back().equals = false;
    in_word_ = std::string_view(",=[]{} \t\r\n").find(c) == std::string_view::npos;
    if (std::string_view(",=[]{}\n").find(c) != std::string_view::npos) dots_ = 0;
    return nullptr;
  }

  char before() const { return at_ == 0 ? '\n' : text_[at_ - 1]; }

  const char* text_in(std::string_view quotes) {
    const bool dotted = before() == '.';
    at_ += quotes.size();
    const std::size_t start = at_;
    const bool one_line = quotes.size() == 1;
    const char* what =
        skip([&](char c) { return (one_line && c == '\n') || starts(quotes); }, quotes[0] == '"', quotes);
    if (!what && dotted && !std::all_of(text_.begin() + start, text_.begin() + at_, is_ascii))
      what = "a character other than ASCII after a dot";
    if (what || !starts(quotes)) return what;
    at_ += quotes.size();
    for (int more = 0; !one_line && more < 2 && starts(quotes.substr(0, 1)); ++more) ++at_;  // """" ends with a quote
    in_word_ = true;
    return nullptr;
  }

  /// To the character where `ends`; a control character on the way is a problem.
  template <typename Ends>
  const char* skip(Ends ends, bool escapes, std::string_view quotes) {
    for (; at_ < text_.size() && !ends(text_[at_]); ++at_) {
      if (is_control(text_[at_])) return "a control character";
      if (!escapes || text_[at_] != '\\') continue;
      const std::size_t next = quotes.size() == 3 ? text_.find_first_not_of(" \t\r\n", at_ + 1) : at_ + 1;
      if (next < text_.size() && !is_ascii(text_[next])) return "a character other than ASCII after a backslash";
      at_ = next == at_ + 1 ? std::min(next, text_.size() - 1) : std::min(next, text_.size()) - 1;
      if (is_control(text_[at_])) return "a control character";
    }
    return nullptr;
  }

  struct Open {
    char bracket;  // [ or {; = for the lines of the file
    bool equals;   // the key of this place has had its equals sign
  };

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Open> open_ = {{'=', false}};
  bool in_word_ = false;
  int dots_ = 0;  // since the last character that ends a key
};

}  // namespace

std::string toml_problem(std::string_view text) {
  TomlScan scan(text);
  const char* what = scan.problem();
  if (!what) return "";
  const std::string_view before = text.substr(0, scan.at());
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::string_view line = before.substr(before.rfind('\n') + 1);
  const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return fmt::format("{}:{}: {}", lines + 1, columns + 1, what);
}

std::string quoted_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace covnoise
