#include "datasets/fetch/download.h"

#include "covnoise/core/error.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <strings.h>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>

namespace covnoise {
namespace {

constexpr long kOk = 200, kPartial = 206, kNothingThere = 416;
constexpr long kConnectSeconds = 30, kStallSeconds = 60;

/// The growing file. Unbuffered, so that a killed program loses nothing.
class PartFile {
 public:
  explicit PartFile(const std::filesystem::path& path)
      : path_(path), descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0) throw Error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
    size_ = static_cast<std::uint64_t>(std::max<off_t>(0, ::lseek(descriptor_, 0, SEEK_END)));
  }
  ~PartFile() { ::close(descriptor_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  bool begin_anew() {
    size_ = 0;
    return ::ftruncate(descriptor_, 0) == 0 && ::lseek(descriptor_, 0, SEEK_SET) == 0;
  }
  bool append(const char* bytes, std::size_t count) {
    while (count > 0) {
      const ssize_t written = ::write(descriptor_, bytes, count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      bytes += written;
      count -= static_cast<std::size_t>(written);
      size_ += static_cast<std::uint64_t>(written);
    }
    return true;
  }
  std::uint64_t size() const { return size_; }
  bool sync() { return ::fsync(descriptor_) == 0; }

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// One request and what its callbacks find out.
struct Transfer {
  CURL* curl = nullptr;
  PartFile* part = nullptr;
  std::uint64_t asked_from = 0;    // start of the requested range; 0: the whole file
  std::uint64_t granted_from = 0;  // start of the range that the server sends
  bool began = false;
  int write_error = 0;
  std::uint64_t most = 0;  // bytes of the file
  bool too_large = false;
  const ByteProgress* progress = nullptr;

  long status() const {
    long code = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }
};

std::size_t on_header(char* text, std::size_t, std::size_t size, void* user) {
  constexpr std::string_view kName = "content-range: bytes ";
  auto& transfer = *static_cast<Transfer*>(user);
  if (size > kName.size() && ::strncasecmp(text, kName.data(), kName.size()) == 0) {
    const std::string value(text + kName.size(), size - kName.size());
    transfer.granted_from = std::strtoull(value.c_str(), nullptr, 10);
  }
  return size;
}

std::size_t on_bytes(char* bytes, std::size_t, std::size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const long status = transfer.status();
  if (status != kOk && status != kPartial) return size;  // the page that explains an error is not part of the file
  const bool continues = status == kPartial && transfer.granted_from == transfer.asked_from;
  if (status == kPartial && !continues) return 0;
  bool good = true;
  if (!transfer.began && !continues) good = transfer.part->begin_anew();
  transfer.began = true;
  transfer.too_large = transfer.part->size() + size > transfer.most;
  if (transfer.too_large) return 0;
  if (good) good = transfer.part->append(bytes, size);
  if (!good) transfer.write_error = errno;
  return good ? size : 0;
}

int on_progress(void* user, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.began) return 0;
  const std::uint64_t size = transfer.part->size();
  (*transfer.progress)(size,
                       total > 0 ? size - static_cast<std::uint64_t>(done) + static_cast<std::uint64_t>(total) : 0);
  return 0;
}

void set_options(CURL* curl, const std::string& url, Transfer& transfer, char* message) {
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "covnoise");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 8L);
  const std::string redirects = redirect_protocols(url);
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, redirects.c_str());
#else
  const long https = CURLPROTO_HTTPS, both = CURLPROTO_HTTP | CURLPROTO_HTTPS;
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS, both);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, redirects == "https" ? https : both);
#endif
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
}

}  // namespace

std::string redirect_protocols(const std::string& url) {
  return ::strncasecmp(url.c_str(), "https:", 6) == 0 ? "https" : "http,https";
}

void download(const std::string& url, const std::filesystem::path& path, const ByteProgress& progress,
              std::uint64_t most) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) throw Error("libcurl cannot be initialised");
  PartFile part(path);
  Transfer transfer;
  transfer.curl = curl.get();
  transfer.part = &part;
  transfer.asked_from = part.size();
  transfer.progress = &progress;
  transfer.most = most;
  char message[CURL_ERROR_SIZE] = "";
  set_options(curl.get(), url, transfer, message);
  const std::string range = fmt::format("{}-", part.size());
  if (part.size() > 0) curl_easy_setopt(curl.get(), CURLOPT_RANGE, range.c_str());
  const CURLcode result = curl_easy_perform(curl.get());
  if (transfer.write_error != 0) {
    throw Error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(transfer.write_error)));
  }
  if (transfer.too_large) {
    part.begin_anew();
    throw Error(fmt::format("{}: more than {} bytes: not a file of a known data set", url, most));
  }
  if (result != CURLE_OK) {
    const std::string reason = message[0] ? message : curl_easy_strerror(result);
    throw Error(fmt::format("{}: {} (at byte {})", url, reason, part.size()));
  }
  const long status = transfer.status();
  const bool whole_before = status == kNothingThere && transfer.asked_from > 0;
  if (status != kOk && status != kPartial && !whole_before) {
    throw Error(fmt::format("{}: the server answers {}", url, status));
  }
  if (!part.sync()) throw Error(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
}

}  // namespace covnoise
