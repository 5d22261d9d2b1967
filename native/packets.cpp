#include "packets_world.hpp"

namespace paceline::packets {

namespace {
constexpr std::int64_t kNicPackets = 2;  // a paced flow waits while its NIC holds more
constexpr std::int64_t kEndless = INT64_MAX / 4;
constexpr std::uint64_t kLosses = 0x105505;  // added to the seed for the chance of packets on cables
}  // namespace

Result simulate(const Fabric& fabric, const Policy& policy, const FlowColumns& flows, Time until) {
    return World(fabric, policy, flows).run(until);
}

World::World(const Fabric& fabric, const Policy& policy, const FlowColumns& flows)
    : fabric_(fabric), policy_(policy), columns_(flows),
      open_(static_cast<std::int64_t>(flows.size())), ports_(fabric.ports()),
      pool_used_(fabric.leaves + fabric.spines), flow_(flows.size()), leaf_of_(fabric.hosts()),
      turn_(fabric.hosts()), waiting_(fabric.hosts()), waiting_count_(fabric.hosts()) {
    const auto hosts = fabric.hosts(), ups = fabric.leaves * fabric.spines;
    for (std::int32_t h = 0; h < hosts; ++h) {
        leaf_of_[h] = h / fabric.hosts_per_leaf;
        turn_[h] = mixed(policy.seed, h);
        ports_[hosts + h].owner = leaf_of_[h];
    }
    for (std::int32_t i = 0; i < ups; ++i) {
        ports_[2 * hosts + i].owner = i / fabric.spines;
        ports_[2 * hosts + ups + i].owner = fabric.leaves + i / fabric.leaves;
        ports_[2 * hosts + i].spine_rate = ports_[2 * hosts + ups + i].spine_rate = true;
    }
    for (Port& port : ports_) std::fill_n(port.head, kPriorities, kNobody);
    for (const bool spine : {false, true}) {
        usual_ns_[spine] = {-1, -1};
        usual_ns_[spine] = {sending_ns(fabric.packet_bytes, spine), sending_ns(kControlBytes, spine)};
    }
    std::int64_t place = 0;
    const std::int64_t payload = fabric.packet_bytes - kHeaderBytes;
    for (std::size_t f = 0; f < flow_.size(); ++f) {
        flow_[f].packets = static_cast<std::int32_t>((flows.size_bytes[f] + payload - 1) / payload);
        flow_[f].place = place;
        flow_[f].window = policy.window_packets;
        flow_[f].threshold = static_cast<double>(kEndless);
        flow_[f].rate = policy.first_rate;
        flow_[f].heard = flows.start_ns[f];
        place += flow_[f].packets;
    }
    state_.resize(place);
    got_.resize(place);
}

Result World::run(Time until) {
    const bool paced = policy_.transport == Transport::kBounded;
    for (std::size_t f = 0; f < flow_.size(); ++f)
        agenda_.add(columns_.start_ns[f], What::kStart, static_cast<std::int32_t>(f));
    while (open_ && !agenda_.empty()) {
        if (agenda_.next() > until) {
            now_ = until;
            break;
        }
        const Event event = agenda_.take();
        now_ = event.at;
        ++result_.events;
        switch (event.what) {
            case What::kArrival: arrive(event.item); break;
            case What::kFree: free(event.item); break;
            case What::kPace: pace(event.item); break;
            case What::kStart: paced ? pace(event.item) : start_windowed(event.item); break;
            case What::kTimer: paced ? timer_paced(event.item) : timer_windowed(event.item); break;
            case What::kCheck: check(event.item); break;
        }
    }
    for (Port& port : ports_) {
        port.account(now_);
        result_.peak.push_back(port.peak);
        result_.byte_ns.push_back(port.byte_ns);
        result_.marked += port.marked;
    }
    for (const Flow& f : flow_) {
        result_.end_ns.push_back(f.end);
        result_.missing.push_back(f.missing);
        result_.sent.push_back(f.sent);
    }
    result_.now = now_;
    return std::move(result_);
}

// ---- packets from queue to queue

void World::send(Packet packet) {
    ++result_.packets;
    packet.port = source(packet);
    packet.spine = spine(packet.flow, packet.port);
    std::int32_t row;
    if (unused_.empty()) {
        row = static_cast<std::int32_t>(packets_.size());
        packets_.push_back(packet);
    } else {
        row = unused_.back();
        unused_.pop_back();
        packets_[row] = packet;
    }
    enqueue(row);
}

void World::enqueue(std::int32_t row) {
    const std::int32_t where = packets_[row].port;
    Port& port = ports_[where];
    const bool remaining = policy_.transport == Transport::kPfabric;
    if (!(remaining ? put_remaining(port, row) : put(port, row))) drop(row);
    if (port.waking || !port.total) return;
    if (now_ >= port.free_at) {
        transmit(where);
    } else {
        port.waking = true;
        agenda_.add(port.free_at, What::kFree, where);
    }
}

void World::transmit(std::int32_t where) {
    Port& port = ports_[where];
    const bool remaining = policy_.transport == Transport::kPfabric;
    const std::int32_t row = remaining ? take_remaining(port) : take(port);
    port.free_at = now_ + sending_ns(packets_[row].size, port.spine_rate);
    agenda_.add(port.free_at + fabric_.hop_ns, What::kArrival, row);
    if (port.total) {
        port.waking = true;
        agenda_.add(port.free_at, What::kFree, where);
    }
    if (where < fabric_.hosts()) wake(where);
}

void World::free(std::int32_t where) {
    ports_[where].waking = false;
    if (ports_[where].total) transmit(where);
}

void World::arrive(std::int32_t row) {
    ++crossed_;
    if (fabric_.loss && chance(policy_.seed + kLosses, crossed_) < fabric_.loss) {
        drop(row);
        return;
    }
    const std::int32_t next = next_port(packets_[row]);
    if (next != kNobody) {
        packets_[row].port = next;
        enqueue(row);
        return;
    }
    ++result_.arrived;
    const Packet packet = packets_[row];
    unused_.push_back(row);
    policy_.transport == Transport::kBounded ? arrived_paced(packet) : arrived_windowed(packet);
}

// The port after the one that a packet has left; nobody where it is at its host.
std::int32_t World::next_port(const Packet& packet) const {
    const std::int32_t hosts = fabric_.hosts(), ups = fabric_.leaves * fabric_.spines;
    const std::int32_t to = target(packet), there = leaf(to);
    if (packet.port < hosts) {
        const std::int32_t here = leaf(packet.port);
        return here == there ? hosts + to : 2 * hosts + here * fabric_.spines + packet.spine;
    }
    if (packet.port < 2 * hosts) return kNobody;
    if (packet.port < 2 * hosts + ups)
        return 2 * hosts + ups + packet.spine * fabric_.leaves + there;
    return hosts + to;
}

std::int32_t World::source(const Packet& packet) const {
    const bool forth = packet.kind == Kind::kData || packet.kind == Kind::kProbe;
    return forth ? columns_.src[packet.flow] : columns_.dst[packet.flow];
}

std::int32_t World::target(const Packet& packet) const {
    const bool forth = packet.kind == Kind::kData || packet.kind == Kind::kProbe;
    return forth ? columns_.dst[packet.flow] : columns_.src[packet.flow];
}

std::uint8_t World::spine(std::int32_t flow, std::int32_t src) {
    if (!fabric_.spines) return 0;
    if (policy_.routing == Routing::kEcmp)
        return static_cast<std::uint8_t>(mixed(policy_.seed, flow) % fabric_.spines);
    return static_cast<std::uint8_t>(turn_[src]++ % fabric_.spines);
}

Time World::sending_ns(std::int64_t size, bool spine_rate) const {
    const auto& usual = usual_ns_[spine_rate];
    if (size == fabric_.packet_bytes && usual[0] >= 0) return usual[0];
    if (size == kControlBytes && usual[1] >= 0) return usual[1];
    const std::int64_t rate = spine_rate ? fabric_.spine_bits_per_s : fabric_.host_bits_per_s;
    return (size * 8'000'000'000 + rate / 2) / rate;
}

// ---- what both kinds of flows use

Packet World::control(std::int32_t flow, Kind kind) const {
    return {flow, -1, kControlBytes, 0, 0, 0, 0, kNobody, kind, 0, 0, true, false, false};
}

std::int32_t World::data_bytes(std::int32_t flow, std::int32_t seq) const {
    const std::int64_t payload = fabric_.packet_bytes - kHeaderBytes;
    const std::int64_t left = columns_.size_bytes[flow] - seq * payload;
    return static_cast<std::int32_t>(std::min(payload, left)) + kHeaderBytes;
}

std::int32_t World::choose(Flow& f) {
    if (!f.lost) return f.next++;
    while (state_[f.place + f.resend] != State::kLost) ++f.resend;
    --f.lost;
    return f.resend;
}

bool World::waits_for_nic(std::int32_t flow) {
    const std::int32_t host = columns_.src[flow];
    if (ports_[host].total <= kNicPackets * fabric_.packet_bytes) return false;
    waiting_[host][columns_.priority[flow]].push_back(flow);
    ++waiting_count_[host];
    return true;
}

void World::wake(std::int32_t host) {
    if (!waiting_count_[host] || ports_[host].total > kNicPackets * fabric_.packet_bytes) return;
    auto* waiting = waiting_[host].data();
    while (waiting->empty()) ++waiting;
    agenda_.add(now_, What::kPace, waiting->front());
    waiting->pop_front();
    --waiting_count_[host];
}

}  // namespace paceline::packets
