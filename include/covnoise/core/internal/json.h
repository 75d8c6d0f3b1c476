#pragma once
#include <nlohmann/json.hpp>

#include <string_view>
#include <vector>

namespace covnoise {

/// The JSON value in `text`; a discarded value (is_discarded()) if it is none, or if it is nested deeper or has an
/// object of more keys than any file of covnoise: copying, comparing and writing it would be recursive, finding a key
/// takes a time proportional to their number.
template <typename Json = nlohmann::ordered_json>
Json parse_json(std::string_view text) {
  constexpr std::size_t kDeepest = 64, kMostKeys = 10'000;
  using Event = typename Json::parse_event_t;
  std::vector<std::size_t> keys;  // of the open objects and arrays
  bool fits = true;
  const auto within_limits = [&](int, Event event, Json&) {
    if (event == Event::object_start || event == Event::array_start) keys.push_back(0);
    if (event == Event::object_end || event == Event::array_end) keys.pop_back();
    if (event == Event::key && ++keys.back() > kMostKeys) fits = false;
    if (keys.size() > kDeepest) fits = false;
    return fits;
  };
  auto json = Json::parse(text.begin(), text.end(), within_limits, /*allow_exceptions=*/false);
  return fits ? json : Json(Json::value_t::discarded);
}

}  // namespace covnoise
