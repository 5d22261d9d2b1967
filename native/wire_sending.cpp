// What a sender sends: packets at the pace of each lane, the end of each tensor, messages.
#include <algorithm>

#include "wire_endpoint.hpp"

namespace paceline::wire {
namespace {

constexpr Time BLOCKED_NS = 1'000'000, LONGEST_WAIT_NS = 100'000'000;

}  // namespace

void Endpoint::send(Time now) {
    share_our_link();
    bool more = now >= blocked_until_;
    while (more) {  // one unit each in turn, so that no peer waits for another's burst
        more = false;
        for (auto& [peer, lane] : lanes_)
            if (Outgoing* out = lane.sending()) more |= send_unit(lane, *out, now);
        more &= now >= blocked_until_;
    }
    for (auto& [peer, lane] : lanes_)
        for (auto& [id, out] : lane.outgoing)
            if (out.state == Outgoing::State::PROBING && now >= out.next_probe)
                probe(peer, out, now);
}

void Endpoint::share_our_link() {
    std::size_t sending = 0;
    for (auto& [peer, lane] : lanes_) sending += lane.sending() != nullptr;
    if (sending != sending_ && sending > 0)
        for (auto& [peer, lane] : lanes_)
            lane.pacer.limit(settings_.link_bits_per_s / static_cast<double>(sending),
                             settings_.window(sending));
    sending_ = sending;
}

bool Endpoint::send_unit(Lane& lane, Outgoing& out, Time now) {
    const std::size_t count = std::min<std::size_t>(out.left(), settings_.segments);
    if (now < blocked_until_ ||
        !lane.pacer.may_send(count * settings_.frame_bytes(), lane.sequence, now))
        return false;
    unit_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        Header header = out.header(i);
        header.source = identity_.rank;
        header.job = identity_.job;
        header.sequence = lane.sequence + static_cast<std::uint32_t>(i);
        unit_[i].payload = out.bytes(i);
        unit_[i].tos = out.service(i);
        write(header, identity_.key, unit_[i].payload, unit_[i].head.data());
    }
    const std::size_t went = socket_->send(lane.address, unit_);
    if (went < count) blocked_until_ = now + BLOCKED_NS;
    if (went == 0) return false;
    if (out.round > 0) counters_.sent_again += went;
    lane.pacer.sent(went * settings_.frame_bytes());
    lane.sequence += static_cast<std::uint32_t>(went);
    out.end = lane.sequence;
    out.advance(went);
    return true;
}

// DONE, until the receiver answers.
void Endpoint::probe(Peer peer, Outgoing& out, Time now) {
    Header header;
    header.kind = Kind::DONE;
    header.step = out.id.step;
    header.tensor = out.id.tensor;
    header.phase = out.id.phase;
    header.round = out.round;
    header.sequence = out.end;
    const auto important = packed_bits(out.parcel.important);
    tell(peer, header, important, out.probes == 1 ? BOTH : DATAGRAM);
    ++out.probes;
    out.probe_wait = out.probe_wait == 0
                         ? settings_.retry_ns
                         : std::min(out.probe_wait + out.probe_wait / 2, LONGEST_WAIT_NS);
    out.next_probe = now + out.probe_wait;
}

// A message that names tensors, and carries what came and what the peer may send.
void Endpoint::name(Peer peer, Kind kind, std::span<const Named> named, int ways, Time now) {
    Lane& lane = lanes_.at(peer);
    Header header;
    header.kind = kind;
    do {
        const auto piece = named.first(std::min(named.size(), MOST_NAMED));
        tell(peer, header, payload_of(granted(lane, now), piece), ways);
        named = named.subspan(piece.size());
    } while (!named.empty());
    lane.arrivals.told();
}

void Endpoint::tell(Peer peer, Header header, std::span<const std::uint8_t> payload, int ways) {
    header.source = identity_.rank;
    header.job = identity_.job;
    Packet packet;
    packet.payload = payload;
    packet.tos = settings_.control_tos;
    write(header, identity_.key, payload, packet.head.data());
    const bool fits = payload.size() <= settings_.packet_bytes;
    if ((ways & DATAGRAM) && fits) socket_->send(lanes_.at(peer).address, {&packet, 1});
    if ((ways & RELIABLE) || !fits) {
        auto& channel = mesh_->channels().at(peer);
        std::vector<std::uint8_t> whole(packet.head.begin(), packet.head.end());
        whole.insert(whole.end(), payload.begin(), payload.end());
        channel.push(whole);
    }
}

}  // namespace paceline::wire
