// A receiver's clock of silence: it runs only while the receiver would have noticed a packet.
//
// Time in which a busy machine kept the receiver from its core is no silence of the network, and
// neither is time after which packets still wait in the socket. All that is measured of silence (how
// long ago a packet came, or its sender was done) is measured on this clock.
#pragma once

#include <algorithm>
#include <limits>

#include "wire_pacing.hpp"

namespace paceline::wire {

class Watch {
public:
    // The receiver looks into its socket.
    void looks(Time now) {
        counted_ = std::clamp<Time>(now - looked_, 0, meant_);
        silence_ += counted_;
        looked_ = now;
        meant_ = LATE_NS;
    }
    // It could not read all that was there.
    void left_some() { silence_ -= counted_; }
    // It does not look again before then, unless something arrives.
    void sleeps(Time until) { meant_ = std::max<Time>(until - looked_, 0) + LATE_NS; }

    Time time() const { return silence_; }
    // When it will be so late on this clock, if nothing holds the receiver up.
    Time when(Time silence) const {
        constexpr Time NEVER = std::numeric_limits<Time>::max();
        return silence == NEVER ? NEVER : looked_ + (silence - silence_);
    }

private:
    // So much later than it meant to look, it was at work; later, it had no core.
    static constexpr Time LATE_NS = 250'000;
    Time silence_ = 0, looked_ = 0, counted_ = 0, meant_ = 0;
};

}  // namespace paceline::wire
