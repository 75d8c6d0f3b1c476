#include "covnoise/core/internal/digest.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace covnoise {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    check(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
  }
  void add(std::string_view bytes) { check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
    return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
  }

 private:
  static void check(bool good) { require(good, "OpenSSL cannot compute SHA-256; check its installation"); }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Sha256 digest;
  digest.add(bytes);
  return digest.hex();
}

std::string sha256_hex_of_file(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  const auto fail = [&] { throw Error(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno))); };
  if (!file) fail();
  Sha256 digest;
  std::vector<char> buffer(1 << 18);
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    digest.add({buffer.data(), size});
  }
  if (std::ferror(file.get())) fail();
  return digest.hex();
}

}  // namespace covnoise
