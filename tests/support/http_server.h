#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace covnoise::testing {

/// A sequential web server on a free port of this machine that can misbehave on purpose.
class HttpServer {
 public:
  std::map<std::string, std::string> files;  // "/path" -> content; anything else is a 404
  bool ignore_range = false;                 // answers 200 with the whole file, whatever range is requested
  std::size_t cut_after = 0;                 // closes the connection after this many bytes of content, once
  std::size_t shift_range = 0;               // answers another range than the requested one

  HttpServer() {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 8);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    ::shutdown(listener_, SHUT_RDWR);  // wakes accept
    thread_.join();
    ::close(listener_);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string url(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + path;
  }
  /// "PATH" or "PATH from BYTE", in the order of the requests.
  std::vector<std::string> requests() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
  }

 private:
  void serve() {
    for (int client; (client = ::accept(listener_, nullptr, nullptr)) >= 0; ::close(client)) answer(client);
  }

  void answer(int client) {
    std::string request;
    char buffer[4096];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t count = ::recv(client, buffer, sizeof buffer, 0);
      if (count <= 0) return;
      request.append(buffer, static_cast<std::size_t>(count));
    }
    const std::string path = request.substr(4, request.find(' ', 4) - 4);
    const std::size_t range = request.find("Range: bytes=");
    const std::size_t from = range == std::string::npos ? 0 : std::strtoull(request.c_str() + range + 13, nullptr, 10);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      requests_.push_back(from > 0 ? path + " from " + std::to_string(from) : path);
    }
    respond(client, path, ignore_range ? 0 : from);
  }

  void respond(int client, const std::string& path, std::size_t from) {
    const auto file = files.find(path);
    if (file == files.end()) return reply(client, "404 Not Found", "", "no such page", 12);
    const std::string& whole = file->second;
    if (from > 0 && from >= whole.size()) return reply(client, "416 Range Not Satisfiable", "", "", 0);
    const std::size_t begin = from > 0 ? from + shift_range : 0;
    const std::string body = whole.substr(begin);
    const std::size_t sent = cut_after > 0 ? std::min(cut_after, body.size()) : body.size();
    cut_after = 0;
    const std::string range = "Content-Range: bytes " + std::to_string(begin) + "-" + std::to_string(whole.size() - 1) +
                              "/" + std::to_string(whole.size()) + "\r\n";
    reply(client, from > 0 ? "206 Partial Content" : "200 OK", from > 0 ? range : "", body, sent);
  }

  /// Announces the whole body, but sends only its first `sent` bytes.
  static void reply(int client, const std::string& status, const std::string& headers, const std::string& body,
                    std::size_t sent) {
    const std::string text = "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers +
                             "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body.substr(0, sent);
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t count = ::send(client, text.data() + done, text.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }

  int listener_;
  int port_ = 0;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
};

}  // namespace covnoise::testing
