#include "wire_socket.hpp"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace paceline::wire {
namespace {

constexpr std::size_t SLOTS = 32;
constexpr std::size_t SLOT_BYTES = 65'536;
constexpr std::uint8_t ECN_BITS = 3, CONGESTION_EXPERIENCED = 3;

void turn_on(int fd, int level, int option, int value = 1) {
    setsockopt(fd, level, option, &value, sizeof value);
}

template <class T>
void attach(msghdr& message, int level, int type, T value) {
    auto* at = reinterpret_cast<cmsghdr*>(static_cast<std::uint8_t*>(message.msg_control) +
                                          message.msg_controllen);
    at->cmsg_level = level;
    at->cmsg_type = type;
    at->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(at), &value, sizeof value);
    message.msg_controllen += CMSG_SPACE(sizeof value);
}

template <class T>
T value_of(const cmsghdr* at) {
    T value;
    std::memcpy(&value, CMSG_DATA(at), sizeof value);
    return value;
}

}  // namespace

void set_buffers(int fd, std::uint32_t bytes) {
    for (const auto& [forced, plain] : {std::pair{SO_RCVBUFFORCE, SO_RCVBUF},
                                        std::pair{SO_SNDBUFFORCE, SO_SNDBUF}}) {
        const int value = static_cast<int>(bytes);
        if (setsockopt(fd, SOL_SOCKET, forced, &value, sizeof value) != 0)
            setsockopt(fd, SOL_SOCKET, plain, &value, sizeof value);
    }
}

std::string name_of(const sockaddr_in& address) {
    char text[INET_ADDRSTRLEN] = "?";
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(address.sin_port));
}

DatagramSocket::DatagramSocket(const sockaddr_in& address, std::uint32_t segments,
                               std::uint32_t buffer_bytes, Counters& counters)
    : segments_(std::max<std::uint32_t>(segments, 1)), counters_(counters),
      room_(SLOTS * SLOT_BYTES) {
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) throw Fault("no datagram socket can be had: " + said());
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        const std::string why = said();
        close(fd_);
        throw Fault("UDP " + name_of(address) + " cannot be used: " + why);
    }
    set_buffers(fd_, buffer_bytes);
    turn_on(fd_, IPPROTO_IP, IP_RECVTOS);
    turn_on(fd_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);  // a packet too big is told of
    turn_on(fd_, IPPROTO_IP, IP_RECVERR, 0);
    turn_on(fd_, SOL_SOCKET, SO_RXQ_OVFL);
    if (segments_ > 1) turn_on(fd_, IPPROTO_UDP, UDP_GRO);
}

DatagramSocket::~DatagramSocket() { close(fd_); }

// How many packets from the front go as one: equal in size and class, the last may be shorter.
std::size_t DatagramSocket::unit_of(std::span<const Packet> packets) const {
    const std::size_t most = std::min<std::size_t>({packets.size(), segments_, 40});
    std::size_t count = 1;
    while (count < most && packets[count].tos == packets[0].tos &&
           packets[count - 1].payload.size() == packets[0].payload.size() &&
           packets[count].payload.size() <= packets[0].payload.size())
        ++count;
    return count;
}

std::size_t DatagramSocket::send(const sockaddr_in& to, std::span<const Packet> packets) {
    std::size_t went = 0;
    while (went < packets.size()) {
        const std::size_t unit = unit_of(packets.subspan(went));
        const std::size_t sent = send_one(to, packets.subspan(went, unit));
        went += sent;
        if (sent < unit) break;
    }
    return went;
}

std::size_t DatagramSocket::send_one(const sockaddr_in& to, std::span<const Packet> unit) {
    std::array<iovec, 80> pieces;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < unit.size(); ++i) {
        pieces[2 * i] = {const_cast<std::uint8_t*>(unit[i].head.data()), HEADER_BYTES};
        pieces[2 * i + 1] = {const_cast<std::uint8_t*>(unit[i].payload.data()),
                             unit[i].payload.size()};
        bytes += HEADER_BYTES + unit[i].payload.size();
    }
    alignas(cmsghdr) std::array<std::uint8_t, 64> control{};
    msghdr message{};
    message.msg_name = const_cast<sockaddr_in*>(&to);
    message.msg_namelen = sizeof to;
    message.msg_iov = pieces.data();
    message.msg_iovlen = 2 * unit.size();
    message.msg_control = control.data();
    message.msg_controllen = 0;
    attach(message, IPPROTO_IP, IP_TOS, static_cast<int>(unit[0].tos));
    if (unit.size() > 1)
        attach(message, IPPROTO_UDP, UDP_SEGMENT,
               static_cast<std::uint16_t>(HEADER_BYTES + unit[0].payload.size()));
    while (sendmsg(fd_, &message, 0) < 0) {
        if (errno == EINTR) continue;
        if (errno == EMSGSIZE && unit.size() > 1) {  // the kernel cuts no unit of this size
            for (std::size_t i = 0; i < unit.size(); ++i)
                if (send_one(to, unit.subspan(i, 1)) == 0) return i;
            return unit.size();
        }
        if (errno == EMSGSIZE && bytes < 60'000 && counters_.too_big++ < 1'000'000'000) {
            turn_on(fd_, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
            continue;
        }
        if (errno == EAGAIN || errno == ENOBUFS) {
            ++counters_.full;
            return 0;
        }
        if (errno == ECONNREFUSED || errno == EHOSTUNREACH || errno == ENETUNREACH ||
            errno == EPERM)
            break;  // as good as lost: the repair, or the peer's silence, tells
        throw Fault("sending to " + name_of(to) + " failed: " + said());
    }
    counters_.sent += unit.size();
    counters_.sent_bytes += bytes;
    return unit.size();
}

std::span<const Datagram> DatagramSocket::receive() {
    found_.clear();
    std::array<mmsghdr, SLOTS> messages{};
    std::array<iovec, SLOTS> places;
    alignas(cmsghdr) static thread_local std::array<std::array<std::uint8_t, 128>, SLOTS> controls;
    for (std::size_t i = 0; i < SLOTS; ++i) {
        places[i] = {room_.data() + i * SLOT_BYTES, SLOT_BYTES};
        messages[i].msg_hdr.msg_iov = &places[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_control = controls[i].data();
        messages[i].msg_hdr.msg_controllen = controls[i].size();
    }
    const int count = recvmmsg(fd_, messages.data(), SLOTS, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < count; ++i) {
        msghdr& head = messages[i].msg_hdr;
        std::size_t bytes = messages[i].msg_len, each = bytes;
        bool marked = false;
        for (cmsghdr* c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c)) {
            if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS)
                marked = (value_of<std::uint8_t>(c) & ECN_BITS) == CONGESTION_EXPERIENCED;
            else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
                each = static_cast<std::size_t>(std::max(1, value_of<int>(c)));
            else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
                const auto total = value_of<std::uint32_t>(c);
                counters_.overflowed += total - overflowed_;
                overflowed_ = total;
            }
        }
        const std::uint8_t* from = room_.data() + static_cast<std::size_t>(i) * SLOT_BYTES;
        for (std::size_t at = 0; at < bytes; at += each)
            found_.push_back({{from + at, std::min(each, bytes - at)}, marked});
    }
    return found_;
}

}  // namespace paceline::wire
