// Bounded loss: order-free packets at a pace that marks slow down. Twin: reference_paced.
#include "packets_world.hpp"

namespace paceline::packets {

namespace {
constexpr double kGain = 1.0 / 16, kLowestRate = 1.0 / 1024;
constexpr Time kSilence = 2;           // round trips without a report,
constexpr std::int32_t kUnheard = 16;  // and packets sent in them, after which all may be lost
constexpr std::int32_t kReordered = 3; // so many missing in a row were dropped, not overtaken
}

void World::pace(std::int32_t row) {
    Flow& f = flow_[row];
    if (f.stopped) {
        wake(columns_.src[row]);  // in its place
        return;
    }
    if (!f.lost && f.next >= f.packets) {
        f.pacing = false;
        probe(row);
        return;
    }
    if (waits_for_nic(row)) return;
    if (f.unheard >= kUnheard && now_ >= f.heard + kSilence * fabric_.rtt_ns) slow_down(f);
    ++f.unheard;
    const std::int32_t size = send_paced(row, choose(f));
    const auto gap = static_cast<Time>(static_cast<double>(sending_ns(size, false)) / f.rate);
    agenda_.add(now_ + std::max<Time>(gap, 1), What::kPace, row);
}

std::int32_t World::send_paced(std::int32_t row, std::int32_t seq) {
    Flow& f = flow_[row];
    state_[f.place + seq] = State::kFlying;
    ++f.sent;
    Packet packet = control(row, Kind::kData);
    packet.seq = seq;
    packet.size = data_bytes(row, seq);
    packet.priority = static_cast<std::uint8_t>(columns_.priority[row]);
    const auto place = static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint32_t>(seq);
    packet.important = packet.markable = chance(policy_.seed, place) < columns_.important[row];
    send(packet);
    return packet.size;
}

void World::probe(std::int32_t row) {
    Packet packet = control(row, Kind::kProbe);
    packet.priority = static_cast<std::uint8_t>(columns_.priority[row]);
    send(packet);
    flow_[row].deadline = now_ + policy_.rto_ns;
    agenda_.add(flow_[row].deadline, What::kTimer, row);
}

void World::timer_paced(std::int32_t row) {
    const Flow& f = flow_[row];
    if (!f.stopped && !f.pacing && now_ >= f.deadline) probe(row);
}

void World::arrived_paced(const Packet& packet) {
    Flow& f = flow_[packet.flow];
    switch (packet.kind) {
        case Kind::kData: receive_paced(packet); break;
        case Kind::kProbe: probed(packet.flow); break;
        case Kind::kReport: reported(f, packet); break;
        case Kind::kStop: f.stopped = true; break;
        case Kind::kRepair:
            if (!f.pacing && !f.stopped) {
                f.pacing = true;
                pace(packet.flow);
            }
            break;
        case Kind::kAck: break;  // windowed flows alone have them
    }
}

void World::reported(Flow& f, const Packet& packet) {
    f.alpha = f.alpha * (1 - kGain) + kGain * (static_cast<double>(packet.second) / packet.first);
    f.doubling = f.doubling && !packet.second;
    f.heard = now_;
    f.unheard = 0;
    if (packet.second && now_ >= f.cut_until) {
        f.rate = std::max(kLowestRate, f.rate * (1 - f.alpha / 2));
        f.cut_until = now_ + fabric_.rtt_ns;
    } else if (!packet.second && now_ >= f.rise_at) {
        f.rate = std::min(1.0, f.doubling ? 2 * f.rate : f.rate + policy_.increase);
        f.rise_at = now_ + fabric_.rtt_ns;
    }
}

// Nothing was reported for so long that all may have been dropped.
void World::slow_down(Flow& f) {
    f.heard = now_;
    f.unheard = 0;
    f.doubling = false;
    f.rate = std::max(kLowestRate, f.rate / 2);
}

void World::receive_paced(const Packet& packet) {
    Flow& f = flow_[packet.flow];
    if (f.end >= 0) return;
    if (!got_[f.place + packet.seq]) {
        got_[f.place + packet.seq] = 1;
        ++f.count;
    }
    const std::int32_t skipped = std::max(0, packet.seq - f.highest - 1);
    f.highest = std::max(f.highest, packet.seq);
    const std::int32_t lost = skipped >= kReordered ? skipped : 0;
    f.seen += 1 + lost;
    f.seen_marked += packet.marked + lost;
    if (f.count == f.packets || (f.asked && f.count >= columns_.need[packet.flow])) {
        finish(packet.flow);
    } else if (f.seen >= policy_.feedback_packets) {
        Packet report = control(packet.flow, Kind::kReport);
        report.first = f.seen;
        report.second = f.seen_marked;
        f.seen = f.seen_marked = 0;
        send(report);
    }
}

void World::probed(std::int32_t row) {
    Flow& f = flow_[row];
    if (f.end >= 0) {
        send(control(row, Kind::kStop));
    } else if (!f.checking) {
        f.asked = f.checking = true;
        agenda_.add(now_ + fabric_.rtt_ns, What::kCheck, row);
    }
}

void World::check(std::int32_t row) {
    Flow& f = flow_[row];
    f.checking = false;
    if (f.end >= 0) return;
    if (f.count >= columns_.need[row]) {
        finish(row);
        return;
    }
    for (std::int32_t seq = 0; seq < f.packets; ++seq) {
        State& state = state_[f.place + seq];
        if (got_[f.place + seq] || state != State::kFlying) continue;
        state = State::kLost;
        ++f.lost;
    }
    f.resend = 0;
    send(control(row, Kind::kRepair));
}

void World::finish(std::int32_t row) {
    Flow& f = flow_[row];
    f.end = now_;
    f.missing = f.packets - f.count;
    --open_;
    send(control(row, Kind::kStop));
}

}  // namespace paceline::packets
