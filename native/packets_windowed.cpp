// Senders with a window: Reno, DCTCP, pFabric. Twin: reference_windowed.
#include "packets_world.hpp"

namespace paceline::packets {

namespace {
constexpr std::int32_t kDuplicates = 3, kProbingAfter = 5, kLongestBackoff = 6;
constexpr double kGain = 1.0 / 16;
}  // namespace

void World::start_windowed(std::int32_t row) {
    fill(row);
    flow_[row].deadline = now_ + policy_.rto_ns;
    agenda_.add(flow_[row].deadline, What::kTimer, row);
}

void World::arrived_windowed(const Packet& packet) {
    packet.kind == Kind::kAck ? acknowledged(packet) : receive_windowed(packet);
}

void World::fill(std::int32_t row) {
    Flow& f = flow_[row];
    while (f.flying < static_cast<std::int32_t>(f.window) && (f.lost || f.next < f.packets)) {
        const std::int32_t seq = choose(f);
        state_[f.place + seq] = State::kFlying;
        ++f.flying;
        ++f.sent;
        Packet packet = control(row, Kind::kData);
        packet.seq = seq;
        packet.size = data_bytes(row, seq);
        packet.markable = policy_.transport == Transport::kDctcp;
        packet.remaining = f.packets - f.acked;
        send(packet);
    }
}

void World::acknowledged(const Packet& packet) {
    Flow& f = flow_[packet.flow];
    if (f.finished) return;
    std::int32_t newly = 0;
    while (f.first < packet.first) newly += settle(f, f.first++);
    if (packet.seq >= 0) {
        newly += settle(f, packet.seq);
        f.highest = std::max(f.highest, packet.seq);
    }
    if (newly || f.probing) {
        f.timeouts = 0;
        f.deadline = now_ + policy_.rto_ns;
    }
    f.probing = false;
    if (f.acked == f.packets) {
        f.finished = true;
        return;
    }
    react(f, newly, packet);
    fill(packet.flow);
}

std::int32_t World::settle(Flow& f, std::int32_t seq) {
    State& state = state_[f.place + seq];
    if (state == State::kDone) return 0;
    f.flying -= state == State::kFlying;
    f.lost -= state == State::kLost;
    state = State::kDone;
    ++f.acked;
    return 1;
}

void World::react(Flow& f, std::int32_t newly, const Packet& packet) {
    if (policy_.transport == Transport::kDctcp) follow_marks(f, newly, packet);
    if (!packet.marked) f.window += f.window < f.threshold ? newly : newly / f.window;
    if (policy_.transport == Transport::kPfabric)
        f.window = std::min(f.window, static_cast<double>(policy_.window_packets));
    else
        find_losses(f);
}

void World::follow_marks(Flow& f, std::int32_t newly, const Packet& packet) {
    f.window_acks += newly;
    f.window_marks += packet.marked ? newly : 0;
    if (packet.marked && packet.seq >= f.cut_end) {
        f.window = std::max(1.0, f.window * (1 - f.alpha / 2));
        f.threshold = f.window;
        f.cut_end = f.next;
    }
    if (packet.seq >= f.window_end && f.window_acks) {
        const double share = static_cast<double>(f.window_marks) / f.window_acks;
        f.alpha = f.alpha * (1 - kGain) + kGain * share;
        f.window_acks = f.window_marks = 0;
        f.window_end = f.next;
    }
}

void World::find_losses(Flow& f) {
    while (f.checked + kDuplicates <= f.highest) {
        const std::int32_t seq = f.checked++;
        if (state_[f.place + seq] != State::kFlying) continue;
        lose(f, seq);
        if (seq >= f.recover) {
            f.threshold = f.window = std::max(f.window / 2, 2.0);
            f.recover = f.next;
        }
    }
}

void World::lose(Flow& f, std::int32_t seq) {
    state_[f.place + seq] = State::kLost;
    --f.flying;
    ++f.lost;
    f.resend = std::min(f.resend, seq);
}

void World::timer_windowed(std::int32_t row) {
    Flow& f = flow_[row];
    if (f.finished) return;
    if (now_ >= f.deadline) time_out(row);
    agenda_.add(f.deadline, What::kTimer, row);
}

void World::time_out(std::int32_t row) {
    Flow& f = flow_[row];
    const bool pfabric = policy_.transport == Transport::kPfabric;
    for (std::int32_t seq = f.first; seq < f.next; ++seq)
        if (state_[f.place + seq] == State::kFlying) lose(f, seq);
    f.threshold = std::max(f.window / 2, 2.0);
    f.window = 1.0;
    f.recover = f.next;
    ++f.timeouts;
    f.probing = pfabric && f.timeouts >= kProbingAfter;
    if (f.probing) {
        Packet probe = control(row, Kind::kProbe);
        probe.remaining = f.packets - f.acked;
        send(probe);
    } else {
        fill(row);
    }
    f.deadline = now_ + (policy_.rto_ns << (pfabric ? 0 : std::min(f.timeouts, kLongestBackoff)));
}

void World::receive_windowed(const Packet& packet) {
    Flow& f = flow_[packet.flow];
    if (packet.kind == Kind::kData && !got_[f.place + packet.seq]) {
        got_[f.place + packet.seq] = 1;
        ++f.count;
        while (f.expected < f.packets && got_[f.place + f.expected]) ++f.expected;
        if (f.count == f.packets) {
            f.end = now_;
            --open_;
        }
    }
    Packet ack = control(packet.flow, Kind::kAck);
    ack.seq = packet.seq;
    ack.first = f.expected;
    ack.marked = packet.marked;
    send(ack);
}

}  // namespace paceline::packets
