// Writes pickles as Python 2's cPickle does for CIFAR's files.
#pragma once
#include "datasets/files.h"

namespace covnoise::testing {

inline std::string short_string(const std::string& text) {
  return "U" + std::string(1, static_cast<char>(text.size())) + text;
}

inline std::string pickled_labels(const std::string& labels) {
  std::string out = "]q\x05(";
  for (const char label : labels) out += std::string("K") + label;
  return out + "e";
}

/// A C-ordered uint8 array [rows, columns].
inline std::string pickled_array(std::uint16_t rows, std::uint16_t columns, const std::string& elements) {
  const auto integer = [](std::uint16_t value) { return "M" + little_endian(value).substr(0, 2); };
  return "cnumpy.core.multiarray\n_reconstruct\nq\x07"
         "cnumpy\nndarray\nq\x08K" +
         std::string(1, '\0') +
         "\x85U\x01"
         "b\x87Rq\x09(K\x01" +
         integer(rows) + integer(columns) +
         "\x86"
         "cnumpy\ndtype\nq\x0aU\x02u1K" +
         std::string(1, '\0') + "K\x01\x87Rq\x0b(K\x03U\x01|NNNJ" + std::string(4, '\xff') + "J" +
         std::string(4, '\xff') + "K" + std::string(1, '\0') + "tb\x89T" +
         little_endian(static_cast<std::uint32_t>(elements.size())) + elements + "tb";
}

inline std::string pickle_of(const std::string& value) { return "\x80\x02" + value + "."; }

/// A batch with `columns` bytes per image; `key` is "labels" or "fine_labels".
inline std::string pickled_batch(const std::string& key, const std::string& labels, std::uint16_t columns) {
  const auto rows = static_cast<std::uint16_t>(labels.size());
  return pickle_of("}q\x01(" + short_string("batch_label") + "q\x02" + short_string("training batch 1 of 5") + "q\x03" +
                   short_string(key) + "q\x04" + pickled_labels(labels) + short_string("data") + "q\x06" +
                   pickled_array(rows, columns, ramp(std::size_t{rows} * columns)) + short_string("filenames") +
                   "q\x0c]q\x0d(" + short_string("a.png") + "r" + little_endian(256) + short_string("b.png") + "r" +
                   little_endian(257) + "eu");
}

}  // namespace covnoise::testing
