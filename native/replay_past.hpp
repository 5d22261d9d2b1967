// A timeline with what is needed to go back into it: the past of a live replay.
#pragma once

#include <utility>

#include "replay_editable.hpp"
#include "replay_sharing.hpp"

namespace paceline {

struct Post {  // an instant, when all of it has happened, to which a replay can go back
    Op ended;          // ops that have ended by then
    Op running;        // ops that have arrived and not ended
    Time now;
    SavedRates rates;  // times relative to `now`, so that posts can be shifted
};

struct Arrivals {  // of ops, and departures
    std::vector<Op> came, went;
};

struct Past {
    Past(const Editable&, std::span<const Time> dur, std::span<const std::int32_t> priority,
         Op interval);

    void add(Time dur, std::int32_t priority);  // a new op
    void drop();                                // the op added last, which has no place in `order`
    // Takes ops that went out of the timeline behind its first `kept` ends, and lets those that came
    // stand there as though they ended next. Of `later` posts, those stay behind which no op went.
    void reconcile(const Editable&, const Arrivals&, Op kept, std::vector<Post>& later);
    Time started(Op op) const { return start.empty() ? ready[op] : start[op]; }
    std::size_t bytes() const;

    // By op. `since`: when the last of its dependencies ended. `rank`: how many ops ended before
    // it. `start` is empty where no op waits once it has arrived.
    std::vector<Time> dur, since, ready, start, end;
    std::vector<std::int32_t> priority;
    std::vector<Op> previous, rank;

    // By op, from when it was last replayed: by how much `since` grew; what `ready` was before, for
    // ops that wait for partners (empty where none does).
    std::vector<Time> moved, was_ready;

    std::vector<Op> order;                   // ops as they ended; behind the last of them kNone
    std::vector<std::pair<Op, Op>> drained;  // (op, other): `op` waited for `other`
    std::vector<Post> posts;
    Op interval;                             // ops from post to post
};

}  // namespace paceline
