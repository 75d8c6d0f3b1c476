#include "covnoise/train/internal/run_records.h"

#include "fuzz.h"
#include "report/runs.h"

#include <zlib.h>

namespace {

/// Stored in a gzip file, not compressed: a thousand times as fast, and the target gzip looks at compressed data.
std::string stored(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_NO_COMPRESSION, Z_DEFLATED, 16 + 9, 1, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  std::string bytes(deflateBound(&stream, text.size()) + 32, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  const int code = deflate(&stream, Z_FINISH);
  covnoise::fuzz::expect(code == Z_STREAM_END, "the harness cannot store its input");
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

}  // namespace

// A file of run records, and all that is made of a record.
FUZZ_TARGET(records, 2048) {
  for (const auto& run : covnoise::read_records(covnoise::fuzz::input_file(stored(input)))) {
    covnoise::summarize(run);
    covnoise::report::read_run(run);
    run.identity();
    run.record({});
  }
}
