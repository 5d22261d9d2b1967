// The reliable channel: one TCP connection to each peer, on which messages follow one another.
//
// It carries what must not be lost, and its end tells that a peer is gone. Whoever connects first
// says HELLO under the job's key; a stranger is hung up on.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "wire_pacing.hpp"
#include "wire_socket.hpp"

namespace paceline::wire {

// One connection: bytes that wait to go, bytes that came and are not yet a whole message.
struct Channel {
    int fd = -1;
    std::vector<std::uint8_t> out, in;
    bool closed = false;

    void push(std::span<const std::uint8_t> message);
    void flush();
    void fill();  // reads what there is; `closed` where the peer is gone
};

// Who we are, as every message says it.
struct Identity {
    std::uint16_t rank = 0;
    std::uint32_t job = 0;
    Key key{};
};

class Mesh {
public:
    Mesh(const sockaddr_in& address, Identity identity, Counters& counters);
    ~Mesh();
    Mesh(const Mesh&) = delete;
    Mesh& operator=(const Mesh&) = delete;

    std::uint16_t port() const;
    // Connects to peers below us and waits for those above; throws when time is up.
    void connect(const std::map<std::uint16_t, sockaddr_in>& peers, Time timeout_ns);
    std::map<std::uint16_t, Channel>& channels() { return channels_; }
    void close_all();

private:
    bool try_connect(std::uint16_t peer, const sockaddr_in& address);
    void accept_some();
    void greet(const std::map<std::uint16_t, sockaddr_in>& peers);

    int listener_ = -1;
    Identity identity_;
    Counters& counters_;
    std::map<std::uint16_t, Channel> channels_;
    std::vector<Channel> unknown_;
};

Time now_ns();

}  // namespace paceline::wire
