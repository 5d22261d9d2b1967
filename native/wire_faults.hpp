// What can go wrong in the transport, and what of it is survived and counted.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace paceline::wire {

// The transport cannot go on; the message says what was asked of which address.
struct Fault : std::runtime_error {
    using std::runtime_error::runtime_error;
};
// A peer vanished, or said nothing for too long.
struct PeerLost : Fault {
    using Fault::Fault;
};

inline std::string said() { return std::strerror(errno); }

// Of one endpoint since it was made.
struct Counters {
    std::uint64_t sent = 0, sent_bytes = 0, sent_again = 0, received = 0, fresh = 0, marked = 0;
    std::uint64_t truncated = 0, malformed = 0, other_job = 0, forged = 0;  // thrown away unread
    std::uint64_t stale = 0;       // of a step or tensor that nobody waits for
    std::uint64_t misfit = 0;      // of another length, or at a place where no packet begins
    std::uint64_t duplicate = 0;   // of values that had arrived
    std::uint64_t strangers = 0;   // connections that did not show the job's key
    std::uint64_t full = 0;        // times that a socket's buffer was full
    std::uint64_t overflowed = 0;  // packets that our own socket had no room for
    std::uint64_t too_big = 0;     // packets above the MTU, which then travelled in fragments
    std::uint64_t early_stops = 0; // tensors ended with values missing
};

}  // namespace paceline::wire
