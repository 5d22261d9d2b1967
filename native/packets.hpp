// A packet-level simulator of leaves and spines: flows in, completions out.
// Twin: paceline/wire/fabric/reference*.py, equal event for event.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::packets {

using Time = std::int64_t;

enum class Transport : std::int32_t { kReno, kDctcp, kPfabric, kBounded };
enum class Routing : std::int32_t { kEcmp, kSpray };

struct Fabric {
    std::int32_t leaves, hosts_per_leaf, spines;
    std::int64_t host_bits_per_s, spine_bits_per_s;
    Time hop_ns, rtt_ns;
    std::int64_t buffer_bytes, shared_bytes;
    std::int32_t packet_bytes;
    std::int64_t loss;  // of 2^31: packets that each cable loses
    std::int32_t hosts() const { return leaves * hosts_per_leaf; }
    std::int32_t ports() const { return 2 * hosts() + 2 * leaves * spines; }
};

struct Policy {
    Transport transport;
    Routing routing;
    std::int64_t mark_bytes, drop_bytes;
    std::int32_t window_packets;
    Time rto_ns;
    double first_rate, increase;
    std::int32_t feedback_packets;
    std::uint64_t seed;
};

struct FlowColumns {  // one row per flow
    std::vector<std::int32_t> src, dst, priority;
    std::vector<std::int64_t> size_bytes, start_ns;
    std::vector<std::int32_t> need;       // packets without which a paced flow does not end
    std::vector<std::int64_t> important;  // of 2^31
    std::size_t size() const { return src.size(); }
};

struct Result {
    std::vector<Time> end_ns;  // per flow; -1 where the limit came first
    std::vector<std::int64_t> missing, sent;
    std::vector<std::int64_t> peak, byte_ns;  // per port
    std::int64_t events = 0, packets = 0, arrived = 0, dropped[3] = {0, 0, 0}, marked = 0;
    Time now = 0;
};

Result simulate(const Fabric&, const Policy&, const FlowColumns&, Time until_ns);

}  // namespace paceline::packets
