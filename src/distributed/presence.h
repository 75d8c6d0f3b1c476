#pragma once
#include "distributed/socket.h"

#include <string>
#include <vector>

namespace covnoise {

/// Where rank 0 waits for the others, and the secret by which it knows them. They read it from the store.
struct Presence {
  std::string host;
  int port = 0;
  std::string token;  ///< 64 hexadecimal digits, new for each training

  std::string to_text() const;
  static Presence from_text(const std::string& text);
};

/// An idle connection between rank 0 and `rank`.
struct PeerConnection {
  int rank = 0;
  Socket socket;
};

/// Sent through these connections, besides the number of a lost rank.
enum PresenceMessage : std::int32_t { kGoodbye = -1, kWelcome = -2, kRefused = -3 };

/// Rank 0's end while the ranks meet. It listens at one address only, and keeps only connections that begin with the
/// token, a rank from 1 to size - 1 that has not come yet, and the size. All others are closed: at once, or, if they
/// stay silent, after five seconds; they delay nobody.
class PresenceListener {
 public:
  explicit PresenceListener(const std::string& address);
  const Presence& presence() const { return presence_; }

  /// The connections of ranks 1 to size - 1. If one of them ends meanwhile, the others are told, and a LostRank says
  /// which; an Error says how many are missing when the waiting is over.
  std::vector<PeerConnection> accept_all(int size, const Wait& wait);

 private:
  struct Stranger;
  void accept_one(std::vector<Stranger>& strangers);
  void read_from(Stranger& stranger, int size);
  void admit(Stranger& stranger, int size);
  void refuse_lost() const;

  Listener listener_;
  Presence presence_;
  std::vector<PeerConnection> connections_;
  int turned_away_ = 0;
};

/// The other ranks' end: connects to rank 0 and waits until it is admitted.
PeerConnection introduce(const Presence& presence, int rank, int size, const Wait& wait);

}  // namespace covnoise
