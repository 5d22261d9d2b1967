// What a receiver says: that it waits, what has come, what is missing, that it has enough.
#include <algorithm>
#include <limits>

#include "wire_endpoint.hpp"

namespace paceline::wire {
namespace {

constexpr Time NEVER = std::numeric_limits<Time>::max();
constexpr Time LONGEST_WAIT_NS = 100'000'000;
// Who sent something, or was asked to, so lately has a share of our link.
constexpr Time ACTIVE_NS = 10'000'000, EXPECTED_NS = 50'000'000;

}  // namespace

// Ends what is complete or may be done without, asks for what is not.
void Endpoint::judge(Time now) {
    for (auto& [peer, lane] : lanes_) {
        for (auto at = lane.incoming.begin(); at != lane.incoming.end();) {
            auto& [id, in] = *at;
            if (in.enough(settings_.patience, lane.arrivals.tally(), watch_.time())) {
                finish(peer, lane, id, in, now);
                at = lane.incoming.erase(at);
                continue;
            }
            if (in.owes_answer(settings_.patience, watch_.time())) answer(peer, lane, id, in);
            ++at;
        }
        if (!lane.stopped.empty()) {
            name(peer, Kind::STOP, lane.stopped, BOTH, now);
            lane.stopped.clear();
            shares_changed_ |= lane.incoming.empty();
        }
        ask(peer, lane, now);
    }
}

void Endpoint::finish(Peer peer, Lane& lane, const Id& id, Incoming& in, Time now) {
    in.close();
    counters_.early_stops += in.missing_bytes() > 0;
    progress_.arrived.push_back({peer, id, in.missing_bytes(), now, in.flags()});
    lane.remember(id, now);
    lane.stopped.push_back({id.step, in.bytes(), id.tensor, id.phase, 0});
}

void Endpoint::answer(Peer peer, const Lane& lane, const Id& id, Incoming& in) {
    Header bitmap;
    bitmap.kind = Kind::BITMAP;
    bitmap.step = id.step;
    bitmap.tensor = id.tensor;
    bitmap.phase = id.phase;
    bitmap.round = in.round();
    in.answered(lane.arrivals.tally(), watch_.time());
    tell(peer, bitmap, in.bitmap(), BOTH);
}

// READY, until something of what was asked for comes.
void Endpoint::ask(Peer peer, Lane& lane, Time now) {
    if (now < lane.next_ready) return;
    std::vector<Named> unheard;
    for (const auto& [id, in] : lane.incoming)
        if (in.post() > lane.asked) unheard.push_back({id.step, in.bytes(), id.tensor, id.phase, 0});
    lane.next_ready = NEVER;
    if (unheard.empty()) return;
    const bool first = lane.ready_wait == 0;
    lane.ready_wait = first ? settings_.retry_ns : std::min(2 * lane.ready_wait, LONGEST_WAIT_NS);
    lane.next_ready = now + lane.ready_wait;
    name(peer, Kind::READY, unheard, first ? BOTH : DATAGRAM, now);
}

// To senders of which enough has come, or enough time has passed; to all, when one has ended, so
// that they share its part of our link at once.
void Endpoint::report(Time now) {
    const std::uint32_t often =
        std::clamp<std::uint32_t>(settings_.window(open_lanes()) / 3, 1, 4);
    for (auto& [peer, lane] : lanes_) {
        const Arrivals& came = lane.arrivals;
        const bool due = came.unreported > 0 && (came.unreported >= often || now >= came.due);
        const bool more = shares_changed_ && !lane.incoming.empty() && came.latest > 0;
        if (due || more) name(peer, Kind::REPORT, {}, DATAGRAM, now);
    }
    shares_changed_ = false;
}

Report Endpoint::granted(const Lane& lane, Time now) const {
    const auto active = [now](const Lane& one) {
        return now - one.arrivals.latest < ACTIVE_NS || now - one.posted < EXPECTED_NS;
    };
    const auto sharing = std::count_if(lanes_.begin(), lanes_.end(), [&](const auto& l) {
        return !l.second.incoming.empty() && active(l.second);
    });
    const std::size_t open = std::max<std::size_t>(open_lanes(), 1);
    Report report = lane.arrivals.report();
    report.bits_per_s = static_cast<std::uint64_t>(
        settings_.link_bits_per_s / (active(lane) ? std::max<double>(1, sharing) : open));
    report.window = settings_.window(open);
    return report;
}

std::size_t Endpoint::open_lanes() const {
    return static_cast<std::size_t>(std::count_if(
        lanes_.begin(), lanes_.end(), [](const auto& l) { return !l.second.incoming.empty(); }));
}

}  // namespace paceline::wire
