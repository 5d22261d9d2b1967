// What ports do with packets: selective drop, marks, strict priorities, pFabric's order.
// Twin: reference_queues.
#include "packets_world.hpp"

namespace paceline::packets {

bool World::put(Port& port, std::int32_t row) {
    Packet& packet = packets_[row];
    if (port.owner != kNobody) {
        const std::int64_t backlog = port.backlog(packet.priority) + packet.size;
        const bool minor = packet.kind == Kind::kData && !packet.important;
        if (minor && policy_.drop_bytes > 0 && backlog > policy_.drop_bytes) return false;
        if (packet.size > room(port)) return false;
        mark(port, packet, backlog);
    }
    packet.next = kNobody;
    const int p = packet.priority;
    if (port.head[p] == kNobody) {
        port.head[p] = row;
        port.used |= static_cast<std::uint8_t>(1 << p);
    } else {
        packets_[port.tail[p]].next = row;
    }
    port.tail[p] = row;
    port.bytes[p] += packet.size;
    grow(port, packet.size);
    return true;
}

std::int32_t World::take(Port& port) {
    const int p = std::countr_zero(port.used);
    const std::int32_t row = port.head[p];
    const Packet& packet = packets_[row];
    port.head[p] = packet.next;
    if (packet.next == kNobody) port.used &= static_cast<std::uint8_t>(~(1 << p));
    port.bytes[p] -= packet.size;
    grow(port, -packet.size);
    return row;
}

bool World::put_remaining(Port& port, std::int32_t row) {
    Packet& packet = packets_[row];
    while (port.owner != kNobody && packet.size > room(port)) {
        const Waiting* worst = nullptr;
        for (const Waiting& w : port.all)
            if (!worst || w.remaining >= worst->remaining) worst = &w;
        if (!worst || worst->remaining <= packet.remaining) return false;
        const std::int32_t dropped = worst->packet;
        port.all.erase(port.all.begin() + (worst - port.all.data()));
        grow(port, -packets_[dropped].size);
        drop(dropped);
    }
    if (port.owner != kNobody) mark(port, packet, port.total + packet.size);
    port.all.push_back({packet.remaining, packet.flow, row});
    grow(port, packet.size);
    return true;
}

std::int32_t World::take_remaining(Port& port) {
    const Waiting* least = &port.all.front();
    for (const Waiting& w : port.all)
        if (w.remaining < least->remaining) least = &w;
    const std::int32_t flow = least->flow;
    auto first = port.all.begin();
    while (first->flow != flow) ++first;
    const std::int32_t row = first->packet;
    port.all.erase(first);
    grow(port, -packets_[row].size);
    return row;
}

void World::mark(Port& port, Packet& packet, std::int64_t backlog) {
    if (policy_.mark_bytes <= 0 || backlog <= policy_.mark_bytes) return;
    if (!packet.markable || packet.marked) return;
    packet.marked = true;
    ++port.marked;
}

std::int64_t World::room(const Port& port) const {
    if (fabric_.shared_bytes) return fabric_.shared_bytes - pool_used_[port.owner] - port.total;
    return fabric_.buffer_bytes - port.total;
}

void World::grow(Port& port, std::int64_t size) {
    port.account(now_);
    port.total += size;
    if (port.owner != kNobody) pool_used_[port.owner] += size;
    port.peak = std::max(port.peak, port.total);
}

void World::drop(std::int32_t row) {
    const Packet& packet = packets_[row];
    ++result_.dropped[packet.kind != Kind::kData ? 2 : packet.important];
    unused_.push_back(row);
}

}  // namespace paceline::packets
