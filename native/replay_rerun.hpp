// Going back into a timeline and on from there, under a structure or durations that were changed.
//
// The engine is causal: up to the instant before anything that a change touches, the old timeline
// is the new one. So the state at the last post before that instant is made again from the
// timeline, and the replay goes on. Where, at a post, all that runs and waits is as it was at the
// old post, the same or all of it later by one difference, the rest is the old timeline with that
// difference added, and the replay stops.
#pragma once

#include <memory>

#include "replay_editable.hpp"
#include "replay_past.hpp"

namespace paceline {

struct Change {
    Time from = kNever;       // the first instant that may differ
    std::vector<Op> touched;  // ops about which something changed
    Arrivals ops;
};

struct Rerun {
    std::size_t revisited;  // ops replayed
    bool complete;          // false where the replay is stuck; the past is then of no use
};

class Rerunner {
  public:
    virtual ~Rerunner() = default;
    virtual Rerun from_zero() = 0;
    virtual Rerun after(const Change&) = 0;
    virtual std::size_t bytes() const = 0;
};

// With `sharing`, ops slow each other or are carried by flows, which must be able to go back.
std::unique_ptr<Rerunner> rerunner(const Editable&, Past&, const Sharing* sharing);

}  // namespace paceline
