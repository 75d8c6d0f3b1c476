#include "covnoise/core/internal/gzip.h"

#include "covnoise/core/error.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <zlib.h>

#include <array>

namespace covnoise {
namespace {

constexpr int kGzip = 16 + MAX_WBITS;  // zlib's code for a gzip header around the data
constexpr int kMemoryLevel = 9;
constexpr int kUnknownSystem = 255;

z_stream stream_of(std::string_view input) {
  z_stream stream = {};
  TORCH_INTERNAL_ASSERT(input.size() <= UINT_MAX);
  // zlib reads its input only, but its interface is older than const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
  stream.avail_in = static_cast<uInt>(input.size());
  return stream;
}

/// Calls `step` (deflate or inflate) until it does not return Z_OK; returns that code.
template <typename Step>
int pump(z_stream& stream, std::string& output, std::size_t most, Step step) {
  std::array<char, std::size_t{1} << 16> buffer;
  int code = Z_OK;
  while (code == Z_OK && output.size() <= most) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    code = step(&stream);
    output.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  return code;
}

}  // namespace

std::string gzip(std::string_view data) {
  z_stream stream = stream_of(data);
  const int begun = deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemoryLevel, Z_DEFAULT_STRATEGY);
  TORCH_INTERNAL_ASSERT(begun == Z_OK);
  gz_header header = {};
  header.os = kUnknownSystem;
  deflateSetHeader(&stream, &header);
  std::string output;
  const int code = pump(stream, output, SIZE_MAX, [](z_stream* s) { return deflate(s, Z_FINISH); });
  deflateEnd(&stream);
  TORCH_INTERNAL_ASSERT(code == Z_STREAM_END);
  return output;
}

std::string gunzip(std::string_view bytes, const std::string& name, std::size_t most) {
  require(bytes.size() <= UINT_MAX, fmt::format("{}: {} bytes are too many for a gzip file here", name, bytes.size()));
  z_stream stream = stream_of(bytes);
  const int begun = inflateInit2(&stream, kGzip);
  TORCH_INTERNAL_ASSERT(begun == Z_OK);
  std::string output;
  const int code = pump(stream, output, most, [](z_stream* s) { return inflate(s, Z_NO_FLUSH); });
  const std::size_t at = bytes.size() - stream.avail_in;
  const std::string reason = stream.msg ? stream.msg : "the file ends too early";
  inflateEnd(&stream);
  if (output.size() > most) throw Error(fmt::format("{}: holds more than {} bytes of data", name, most));
  if (code != Z_STREAM_END) throw Error(fmt::format("{}: damaged gzip file at byte {}: {}", name, at, reason));
  if (at != bytes.size()) throw Error(fmt::format("{}: damaged gzip file: more data after byte {}", name, at));
  return output;
}

}  // namespace covnoise
