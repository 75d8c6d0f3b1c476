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

class Digest {
 public:
  explicit Digest(const EVP_MD* algorithm)
      : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free), name_(algorithm ? EVP_MD_get0_name(algorithm) : "a digest") {
    check(algorithm && context_ && EVP_DigestInit_ex(context_.get(), algorithm, nullptr) == 1);
  }
  void add(std::string_view bytes) { check(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1); }
  std::string hex() {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    check(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
    return fmt::format("{:02x}", fmt::join(digest, digest + size, ""));
  }

 private:
  void check(bool good) const {
    if (!good) throw Error(fmt::format("OpenSSL cannot compute {} (FIPS mode?); check its installation", name_));
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
  std::string name_;
};

std::string hex_of_file(const EVP_MD* algorithm, const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  const auto fail = [&] { throw Error(fmt::format("cannot read {}: {}", path.string(), std::strerror(errno))); };
  if (!file) fail();
  Digest digest(algorithm);
  std::vector<char> buffer(1 << 18);
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    digest.add({buffer.data(), size});
  }
  if (std::ferror(file.get())) fail();
  return digest.hex();
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  Digest digest(EVP_sha256());
  digest.add(bytes);
  return digest.hex();
}

std::string sha256_hex_of_file(const std::filesystem::path& path) { return hex_of_file(EVP_sha256(), path); }

std::string md5_hex_of_file(const std::filesystem::path& path) { return hex_of_file(EVP_md5(), path); }

}  // namespace covnoise
