// A timeline with what is needed to go back into it: the past of a live replay.
#pragma once

#include <memory>

#include "replay.hpp"
#include "replay_agenda.hpp"
#include "replay_sharing.hpp"

namespace paceline {

struct Post {  // a round's end to which a replay can go back
    Op ended;          // ops that have ended by then
    Op running;        // ops that have arrived and not ended
    Time now;
    SavedRates rates;  // times relative to `now`, so that posts can be shifted
};

struct Past {
    Past(std::span<const Time> dur, std::span<const std::int32_t> priority, Op interval);

    void add(Time dur, std::int32_t priority);  // columns of a new op
    void drop();
    Timeline& view();                           // of the columns as they lie now
    std::size_t bytes() const;

    std::vector<Time> dur;
    std::vector<std::int32_t> priority;

    // By op. `since`: when the last of its dependencies ended.
    std::vector<Time> since, ready, start, end;
    std::vector<Op> previous;
    std::vector<Op> arrived;  // how many ops had ended when it arrived
    std::vector<Op> rank;     // how many ops ended before it; its place in `order`
    // By op, of its last revisit: what `since` grew by, and what `arrived` was before.
    std::vector<Time> moved;
    std::vector<Op> was_arrived;

    std::vector<Op> order;  // ops as they ended
    std::vector<Post> posts;
    Op interval;            // ops from post to post

  private:
    Timeline columns_;
};

}  // namespace paceline
