#include "wire_channel.hpp"

#include <netinet/tcp.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

namespace paceline::wire {
namespace {

constexpr std::size_t GREETING_BYTES = HEADER_BYTES, MOST_STRANGERS = 64;

void prepare(int fd) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Time now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<Time>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

void Channel::push(std::span<const std::uint8_t> message) {
    out.insert(out.end(), message.begin(), message.end());
    flush();
}

void Channel::flush() {
    std::size_t went = 0;
    while (went < out.size() && !closed) {
        const auto n = ::send(fd, out.data() + went, out.size() - went, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EINTR) continue;
            closed = errno != EAGAIN;
            break;
        }
        went += static_cast<std::size_t>(n);
    }
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(went));
}

void Channel::fill() {
    std::uint8_t room[16'384];
    while (!closed) {
        const auto n = ::recv(fd, room, sizeof room, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            closed = n == 0 || errno != EAGAIN;
            return;
        }
        in.insert(in.end(), room, room + n);
        if (static_cast<std::size_t>(n) < sizeof room) return;
    }
}

Mesh::Mesh(const sockaddr_in& address, Identity identity, Counters& counters)
    : identity_(identity), counters_(counters) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (listener_ >= 0) setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener_ < 0 ||
        bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_, 128) != 0) {
        const std::string why = said();
        if (listener_ >= 0) close(listener_);
        throw Fault("TCP " + name_of(address) + " cannot be used: " + why);
    }
}

Mesh::~Mesh() {
    close_all();
    close(listener_);
}

void Mesh::close_all() {
    for (auto& [peer, channel] : channels_) close(channel.fd);
    for (auto& channel : unknown_) close(channel.fd);
    channels_.clear();
    unknown_.clear();
}

std::uint16_t Mesh::port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

void Mesh::connect(const std::map<std::uint16_t, sockaddr_in>& peers, Time timeout_ns) {
    const Time end = now_ns() + timeout_ns;
    while (channels_.size() < peers.size()) {
        for (const auto& [peer, address] : peers)
            if (peer < identity_.rank && !channels_.contains(peer)) try_connect(peer, address);
        accept_some();
        greet(peers);
        if (channels_.size() == peers.size()) return;
        if (now_ns() > end) {
            std::string missing;
            for (const auto& [peer, address] : peers)
                if (!channels_.contains(peer))
                    missing += (missing.empty() ? "" : ", ") + std::to_string(peer) + " (" +
                               name_of(address) + ")";
            throw PeerLost("rank " + std::to_string(identity_.rank) +
                           " found no connection to rank " + missing);
        }
        pollfd wait{listener_, POLLIN, 0};
        poll(&wait, 1, 5);
    }
}

bool Mesh::try_connect(std::uint16_t peer, const sockaddr_in& address) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) throw Fault("no stream socket can be had: " + said());
    const timeval patience{2, 0};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        close(fd);
        return false;
    }
    prepare(fd);
    Header hello;
    hello.kind = Kind::HELLO;
    hello.source = identity_.rank;
    hello.job = identity_.job;
    hello.length = peer;  // so that a greeting cannot be sent on to another rank
    std::array<std::uint8_t, HEADER_BYTES> bytes;
    write(hello, identity_.key, {}, bytes.data());
    Channel channel;
    channel.fd = fd;
    channel.push(bytes);
    channels_.emplace(peer, std::move(channel));
    return true;
}

void Mesh::accept_some() {
    while (unknown_.size() < MOST_STRANGERS) {
        const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        prepare(fd);
        Channel channel;
        channel.fd = fd;
        unknown_.push_back(std::move(channel));
    }
}

void Mesh::greet(const std::map<std::uint16_t, sockaddr_in>& peers) {
    for (auto& channel : unknown_) {
        channel.fill();
        if (channel.in.size() < GREETING_BYTES && !channel.closed) continue;
        Header hello;
        const auto head = std::span(channel.in).first(std::min(channel.in.size(), GREETING_BYTES));
        const bool known = read(head, identity_.job, identity_.key, hello) == Verdict::FINE &&
                           hello.kind == Kind::HELLO && hello.length == identity_.rank &&
                           peers.contains(hello.source) && !channels_.contains(hello.source);
        if (known) {
            channel.in.erase(channel.in.begin(), channel.in.begin() + GREETING_BYTES);
            channels_.emplace(hello.source, std::move(channel));
        } else {
            ++counters_.strangers;
            close(channel.fd);
        }
        channel.fd = -1;
    }
    std::erase_if(unknown_, [](const Channel& c) { return c.fd < 0; });
}

}  // namespace paceline::wire
