#pragma once
#include <cstddef>
#include <filesystem>
#include <string>

struct evp_md_ctx_st;

namespace covnoise {

/// MD5, the checksum that the authors of the data sets publish: against damage, not against attack.
class Md5 {
 public:
  Md5();
  ~Md5();
  Md5(const Md5&) = delete;
  Md5& operator=(const Md5&) = delete;
  void update(const void* bytes, std::size_t size);
  std::string hex();  // 32 digits; call once, at the end

 private:
  evp_md_ctx_st* context_;
};

std::string md5_of_file(const std::filesystem::path& path);

}  // namespace covnoise
