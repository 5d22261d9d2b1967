// What an endpoint does with messages that come.
#include <algorithm>

#include "wire_endpoint.hpp"

namespace paceline::wire {
namespace {

constexpr std::size_t REMEMBERED = 4096;
constexpr std::uint32_t FURTHEST_STEP = 1u << 20;

Id id_of(const Header& h) { return {h.step, h.tensor, h.phase}; }
Id id_of(const Named& n) { return {n.step, n.tensor, n.phase}; }

}  // namespace

void Endpoint::hear(Time now) {
    constexpr int BATCHES = 16;  // then others get their turn
    watch_.looks(now);
    bool empty = false;
    for (int i = 0; i < BATCHES && !empty; ++i) {
        const auto found = socket_->receive();
        for (const Datagram& datagram : found) handle(datagram.bytes, datagram.marked, -1, now);
        empty = found.empty();
    }
    if (!empty) watch_.left_some();
    hear_channels(now);
}

void Endpoint::hear_channels(Time now) {
    for (auto& [peer, channel] : mesh_->channels()) {
        channel.flush();
        channel.fill();
        std::size_t at = 0;
        while (true) {
            const auto rest = std::span<const std::uint8_t>(channel.in).subspan(at);
            const std::size_t bytes = message_bytes(rest);
            if (bytes == 0 || bytes > rest.size()) break;
            handle(rest.first(bytes), false, peer, now);
            at += bytes;
        }
        channel.in.erase(channel.in.begin(), channel.in.begin() + static_cast<std::ptrdiff_t>(at));
    }
}

void Endpoint::handle(std::span<const std::uint8_t> message, bool marked, int channel, Time now) {
    Header header;
    switch (read(message, identity_.job, identity_.key, header)) {
        case Verdict::TRUNCATED: ++counters_.truncated; return;
        case Verdict::MALFORMED: ++counters_.malformed; return;
        case Verdict::OTHER_JOB: ++counters_.other_job; return;
        case Verdict::FORGED: ++counters_.forged; return;
        case Verdict::FINE: break;
    }
    if (channel >= 0 && header.source != channel) {
        ++counters_.malformed;
        return;
    }
    act(header, message.subspan(HEADER_BYTES), marked, now);
}

void Endpoint::act(const Header& h, std::span<const std::uint8_t> payload, bool marked, Time now) {
    const auto at = lanes_.find(h.source);
    if (at == lanes_.end()) {
        ++counters_.malformed;
        return;
    }
    Lane& lane = at->second;
    lane.heard = now;
    switch (h.kind) {
        case Kind::DATA: return take(lane, h, payload, marked, now);
        case Kind::DONE: return done(lane, h, payload, now);
        case Kind::READY:
        case Kind::REPORT:
        case Kind::STOP: return told(h.source, lane, h, payload, now);
        case Kind::BITMAP:
            if (const auto out = lane.outgoing.find(id_of(h)); out != lane.outgoing.end())
                out->second.repair(h.round, payload);
            return;
        case Kind::HELLO: return;
    }
}

void Endpoint::take(Lane& lane, const Header& h, std::span<const std::uint8_t> payload, bool marked,
                    Time now) {
    ++counters_.received;
    counters_.marked += marked;
    if (!lane.arrivals.count(h.sequence, marked, now)) {
        ++counters_.misfit;
        return;
    }
    const auto at = lane.incoming.find(id_of(h));
    if (at == lane.incoming.end()) {
        ++counters_.stale;
        return;
    }
    switch (at->second.take(h, payload, lane.arrivals.tally(), watch_.time())) {
        case Took::FRESH: ++counters_.fresh; break;
        case Took::DUPLICATE: ++counters_.duplicate; break;
        case Took::MISFIT: ++counters_.misfit; return;
    }
    lane.asked = std::max(lane.asked, at->second.post());
}

void Endpoint::told(Peer peer, Lane& lane, const Header& h, std::span<const std::uint8_t> payload,
                    Time now) {
    Report report;
    std::vector<Named> named;
    if (!read(payload, report, named) || apart(report.highest + 1, lane.sequence)) {
        ++counters_.malformed;
        return;
    }
    lane.pacer.report(report, now);
    for (const Named& one : named) {
        if (h.kind == Kind::READY) ready(peer, lane, one);
        if (h.kind == Kind::STOP) stop(peer, lane, one);
    }
}

void Endpoint::ready(Peer peer, Lane& lane, const Named& named) {
    const Id id = id_of(named);
    const auto at = lane.outgoing.find(id);
    if (at != lane.outgoing.end()) {
        require_length(peer, at->second, named.length);
        if (at->second.state == Outgoing::State::WAITING) at->second.begin();
    } else if (lane.early.size() < REMEMBERED && named.step < newest_step_ + FURTHEST_STEP) {
        lane.early[id] = named.length;
    }
}

void Endpoint::stop(Peer peer, Lane& lane, const Named& named) {
    if (lane.outgoing.erase(id_of(named)) > 0) progress_.sent.push_back({peer, id_of(named)});
}

void Endpoint::done(Lane& lane, const Header& h, std::span<const std::uint8_t> payload, Time now) {
    const Id id = id_of(h);
    if (!lane.arrivals.near(h.sequence)) {
        ++counters_.misfit;
    } else if (const auto at = lane.incoming.find(id); at != lane.incoming.end()) {
        lane.asked = std::max(lane.asked, at->second.post());
        at->second.done(h, payload, watch_.time());
    } else if (lane.asks_again(id, now)) {  // our STOP was lost
        lane.stopped.push_back({id.step, 0, id.tensor, id.phase, 0});
    }
}

}  // namespace paceline::wire
