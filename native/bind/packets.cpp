// Binds native/packets: a simulation of packets as one call.
#include "packets.hpp"

#include "columns.hpp"

namespace nb = nanobind;
using namespace paceline::packets;

namespace {

Fabric fabric_of(std::int32_t leaves, std::int32_t hosts_per_leaf, std::int32_t spines,
                 std::int64_t host_bits_per_s, std::int64_t spine_bits_per_s, Time hop_ns,
                 Time rtt_ns, std::int64_t buffer_bytes, std::int64_t shared_bytes,
                 std::int32_t packet_bytes, std::int64_t loss) {
    return {leaves, hosts_per_leaf, spines,       host_bits_per_s, spine_bits_per_s, hop_ns,
            rtt_ns, buffer_bytes,   shared_bytes, packet_bytes,    loss};
}

Policy policy_of(std::int32_t transport, std::int32_t routing, std::int64_t mark_bytes,
                 std::int64_t drop_bytes, std::int32_t window_packets, Time rto_ns,
                 double first_rate, double increase, std::int32_t feedback_packets,
                 std::uint64_t seed) {
    return {static_cast<Transport>(transport), static_cast<Routing>(routing), mark_bytes,
            drop_bytes, window_packets, rto_ns, first_rate, increase, feedback_packets, seed};
}

FlowColumns flows_of(const Column<std::int32_t>& src, const Column<std::int32_t>& dst,
                     const Column<std::int32_t>& priority, const Column<std::int64_t>& size_bytes,
                     const Column<std::int64_t>& start_ns, const Column<std::int32_t>& need,
                     const Column<std::int64_t>& important) {
    return {copied(src), copied(dst), copied(priority), copied(size_bytes),
            copied(start_ns), copied(need), copied(important)};
}

nb::tuple simulated(const Fabric& fabric, const Policy& policy, const FlowColumns& flows,
                    Time until_ns) {
    Result r;
    {
        nb::gil_scoped_release unlocked;
        r = simulate(fabric, policy, flows, until_ns);
    }
    return nb::make_tuple(
        given(std::move(r.end_ns)), given(std::move(r.missing)), given(std::move(r.sent)),
        given(std::move(r.peak)), given(std::move(r.byte_ns)),
        nb::make_tuple(r.events, r.packets, r.arrived, r.dropped[0], r.dropped[1], r.dropped[2],
                       r.marked, r.now));
}

}  // namespace

void bind_packets(nb::module_& m) {
    nb::class_<Fabric>(m, "PacketFabric");
    nb::class_<Policy>(m, "PacketPolicy");
    nb::class_<FlowColumns>(m, "PacketFlows");
    m.def("packet_fabric", &fabric_of);
    m.def("packet_policy", &policy_of);
    m.def("packet_flows", &flows_of);
    m.def("simulate_packets", &simulated);
}
