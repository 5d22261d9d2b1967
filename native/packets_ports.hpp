// Packets, and the queues of ports that they wait in. Twins: reference_packets, reference_queues.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "packets.hpp"

namespace paceline::packets {

inline constexpr int kPriorities = 8;
inline constexpr std::int32_t kControlBytes = 64, kHeaderBytes = 40, kNobody = -1;

enum class Kind : std::uint8_t { kData, kAck, kProbe, kReport, kRepair, kStop };

struct Packet {
    std::int32_t flow, seq, size, remaining;
    std::int32_t first, second;  // as the twin has them
    std::int32_t port;           // whose queue it is in, or which it left last
    std::int32_t next;           // behind it in that queue
    Kind kind;
    std::uint8_t priority, spine;
    bool important, markable, marked;
};

// 63 well-mixed bits of two numbers.
inline std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {
    std::uint64_t z = seed * 0x9E3779B97F4A7C15ull + (value + 1) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (z ^ (z >> 31)) >> 1;
}

// From 0 to 2^31 - 1.
inline std::int64_t chance(std::uint64_t seed, std::uint64_t value) {
    return static_cast<std::int64_t>(mixed(seed, value) >> 32);
}

struct Waiting {  // in a queue of pFabric's, in order of arrival
    std::int32_t remaining, flow, packet;
};

struct Port {
    Time free_at = 0, since = 0;
    std::int64_t total = 0, peak = 0, byte_ns = 0, marked = 0;
    std::int64_t bytes[kPriorities] = {};
    std::int32_t head[kPriorities], tail[kPriorities];
    std::int32_t owner = kNobody;  // its switch; nobody's for a NIC
    std::uint8_t used = 0;         // priorities that have packets
    bool waking = false, spine_rate = false;
    std::vector<Waiting> all;

    std::int64_t backlog(int priority) const {
        std::int64_t sum = 0;
        for (int p = 0; p <= priority; ++p) sum += bytes[p];
        return sum;
    }
    void account(Time now) {
        byte_ns += total * (now - since);
        since = now;
    }
};

}  // namespace paceline::packets
