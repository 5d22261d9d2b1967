// The datagram socket: batches out, each packet with its own class of service; batches in, each with
// its congestion mark. Nothing here blocks.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "wire_faults.hpp"
#include "wire_packet.hpp"

namespace paceline::wire {

// A packet that is ready to go; its payload stays where it lies.
struct Packet {
    std::array<std::uint8_t, HEADER_BYTES> head;
    std::span<const std::uint8_t> payload;
    std::uint8_t tos = 0;
};

struct Datagram {
    std::span<const std::uint8_t> bytes;
    bool marked = false;
};

class DatagramSocket {
public:
    // `segments`: packets that the kernel may be handed as one; above 1 it also joins arrivals.
    DatagramSocket(const sockaddr_in& address, std::uint32_t segments, std::uint32_t buffer_bytes,
                   Counters& counters);
    ~DatagramSocket();
    DatagramSocket(const DatagramSocket&) = delete;
    DatagramSocket& operator=(const DatagramSocket&) = delete;

    int fd() const { return fd_; }
    // How many of the packets went; fewer where the socket's buffer is full.
    std::size_t send(const sockaddr_in& to, std::span<const Packet> packets);
    // What has arrived, until the next call; empty where nothing has.
    std::span<const Datagram> receive();

private:
    std::size_t send_one(const sockaddr_in& to, std::span<const Packet> unit);
    std::size_t unit_of(std::span<const Packet> packets) const;

    int fd_ = -1;
    std::uint32_t segments_;
    std::uint32_t overflowed_ = 0;
    Counters& counters_;
    std::vector<std::uint8_t> room_;
    std::vector<Datagram> found_;
};

// Socket buffers, and the name of an address for messages.
void set_buffers(int fd, std::uint32_t bytes);
std::string name_of(const sockaddr_in& address);

}  // namespace paceline::wire
