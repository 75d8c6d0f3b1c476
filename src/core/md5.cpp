#include "core/md5.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace covnoise {

Md5::Md5() : context_(EVP_MD_CTX_new()) {
  if (!context_ || EVP_DigestInit_ex(context_, EVP_md5(), nullptr) != 1) {
    EVP_MD_CTX_free(context_);
    throw Error("this OpenSSL offers no MD5 (FIPS mode?), which the checksums of the data sets need");
  }
}

Md5::~Md5() { EVP_MD_CTX_free(context_); }

void Md5::update(const void* bytes, std::size_t size) { EVP_DigestUpdate(context_, bytes, size); }

std::string Md5::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context_, digest.data(), &size);
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

std::string md5_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  Md5 md5;
  std::vector<char> buffer(1 << 20);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), file.gcount() > 0) {
    md5.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) throw Error(fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  return md5.hex();
}

}  // namespace covnoise
