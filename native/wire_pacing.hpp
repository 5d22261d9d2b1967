// When a sender may send its next packet: a token bucket at a rate, and a limit of packets in flight.
//
// While the window is open it may go faster than its share, so that a sender that was late catches up
// and the link does not rest for one that is. When the window is closed it waits: what is unreported
// may all still stand in a queue, and one packet more would be dropped there. In silence it asks with
// a single packet, three times and ever more rarely, before it takes all that is under way for lost.
//
// The receiver grants both, a share for each of its senders. Below the grant the sender keeps a rate
// of its own: it falls with the share of packets that the network marked (as DCTCP does), or that
// were lost, and grows by steps of the same size again. Time comes in as an argument.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "wire_packet.hpp"

namespace paceline::wire {

using Time = std::int64_t;  // ns

struct Control {
    double start_bits_per_s = 100e6;  // before the receiver grants anything
    bool paced = true;                // off: only the window limits
    bool reacts = true;               // off: marks and losses change nothing
    double headroom = 1.25;           // of the share, while the window is open
    std::uint32_t burst = 4;          // packets that a late sender may send at once
    double raise = 1.0 / 64;          // of the grant, in each window without marks
    double gain = 1.0 / 8;            // of the newest window in the share of marks
    double least = 1.0 / 16;          // of the grant
    std::size_t frame_bytes = 1514;   // of one packet
};

class Pacer {
public:
    explicit Pacer(const Control& control, Time now)
        : control_(control), granted_(control.start_bits_per_s),
          rate_(control.start_bits_per_s), last_(now), tokens_(0) {}

    void grant(double bits_per_s, std::uint32_t window);
    // `share`: at most this much of our own link is this transfer's.
    void limit(double bits_per_s, std::uint32_t window) {
        own_ = bits_per_s;
        own_window_ = std::max<std::uint32_t>(window, 2);
    }
    void report(const Report& report, Time now);

    bool may_send(std::size_t frame_bytes, std::uint32_t sent, Time now);
    void sent(std::size_t frame_bytes);
    // When `may_send` may turn true without a report.
    Time next(std::size_t frame_bytes, std::uint32_t sent, Time now) const;

    double rate() const { return std::min({rate_, granted_, own_}); }
    std::uint32_t window() const { return std::min(window_, own_window_); }
    std::uint32_t in_flight(std::uint32_t sent) const {
        return ahead(sent, seen_) ? sent - seen_ : 0;
    }

private:
    std::int32_t newly_lost(const Report& report);
    void refill(std::size_t frame_bytes, Time now);
    bool open(std::uint32_t sent) const { return in_flight(sent) < window(); }
    Time asks_at() const;  // with a packet beyond the window

    Control control_;
    double granted_, rate_, own_ = 1e15;
    std::uint32_t window_ = 8, own_window_ = 1u << 30;
    Time last_, heard_ = 0;
    Time silent_since_ = 0;  // when the first of what is under way left, or it last asked
    std::uint32_t asked_ = 0;  // how often in a row
    double tokens_;            // bytes
    std::uint32_t seen_ = 0;                        // one past the highest sequence that arrived
    std::uint32_t received_ = 0, marked_ = 0, judged_ = 0;  // at the last change of the rate
    std::uint32_t newest_ = 0;  // packets received, by the newest report
    std::int32_t missing_ = 0, lost_ = 0;  // at that change: packets that had not come, and of them
                                           // those that were taken for lost
    double marks_ = 0;
};

}  // namespace paceline::wire
