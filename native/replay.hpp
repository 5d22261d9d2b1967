// Replay on flat arrays. The plain-Python twin `paceline/replay/reference.py` is the definition.
//
// A Program is what replay needs of a graph's structure, compiled once: a topological order with
// predecessors for graphs whose lanes all run in recorded order (one pass, `pull`), successors and
// counters for the others (rounds of events, `run_events`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "huge_pages.hpp"

namespace paceline {

using Time = std::int64_t;  // nanoseconds
using Op = std::int32_t;
inline constexpr Op kNone = -1;

// Numbers of the graph's enums that the engine must know.
inline constexpr std::uint8_t kRecorded = 0;
inline constexpr std::uint8_t kLaunch = 2;

struct Structure {  // columns of a graph, as paceline/graph/graph.py describes them
    std::span<const Op> lane;
    std::span<const Op> instance;
    std::span<const std::int64_t> dep_ptr;
    std::span<const Op> dep_src;
    std::span<const std::uint8_t> dep_kind;
    std::span<const std::uint8_t> discipline;  // one a lane
    std::span<const Op> drain_op;
    std::span<const Op> drain_lane;
};

struct Csr {  // rows of op ids or positions
    Flat<std::uint32_t> ptr;
    Flat<Op> item;
    std::span<const Op> row(std::size_t i) const {
        return {item.data() + ptr[i], item.data() + ptr[i + 1]};
    }
    std::uint32_t begin(std::size_t i) const { return ptr[i]; }
    std::uint32_t end(std::size_t i) const { return ptr[i + 1]; }
    std::size_t rows() const { return ptr.empty() ? 0 : ptr.size() - 1; }
    std::size_t bytes() const { return ptr.size() * 4 + item.size() * 4; }
};

struct Run {  // ops of one instance stand side by side in the topological order
    Op begin, end;
};

struct Program {
    Op ops = 0;
    std::size_t edges = 0;
    bool by_pull = false;  // every lane in recorded order, nothing drained
    std::vector<Op> cycle;  // ops of a cycle; empty where the graph is acyclic

    // for pull
    Flat<Op> order;            // position -> op
    Csr preds;                 // position -> positions it waits for, its lane's last op among them
    std::vector<bool> lane_first;  // position -> its first predecessor is there by lane alone
    std::vector<Run> joined;   // instances of two members and more, ascending

    // for events
    Csr succs;                       // op -> ops that wait for it
    std::vector<Op> waits_for;       // how many predecessors each op has
    std::vector<Op> lane_of;
    std::vector<Op> instance_of;     // empty where there are no instances; kNone for single ops
    Csr members;                     // instance -> ops
    Csr queue;                       // lane -> ops in id order; empty rows for PRIORITY lanes
    std::vector<std::uint8_t> discipline;
    Csr drains;                      // op -> lanes; empty where nothing drains
    Csr launches;                    // op -> ops it launches
    std::vector<Op> waits_for_launch;
    std::vector<std::uint8_t> drained_lane;

    std::size_t bytes() const;
};

struct Timeline {  // columns to be filled, one row an op
    std::span<Time> ready, start, end;
    std::span<Op> previous;  // events only
    std::span<Op> order;     // events only
    std::vector<std::pair<Op, Op>> drained;
};

// `events` asks for a program for rounds of events even where one for a pull would do.
Program compile(const Structure& graph, bool events = false);

// For each op the one before it on its RECORDED lane, or kNone.
void previous_on_lane(std::span<const Op> lane, std::span<const std::uint8_t> discipline,
                      std::span<Op> out);

// Rows of (key, value) pairs, stable.
Csr group_by(std::size_t rows, std::span<const Op> keys, std::span<const Op> values);

// The same links from the other side; items are rows.
Csr reversed(const Csr& rows);

// One pass in topological order. The step's length alone needs `ops` entries of scratch.
void pull(const Program&, const Time* dur, Timeline& out);
Time pull_step(const Program&, const Time* dur, Time* end_by_position);

// Rounds of events; returns how many ops ended (all, unless the replay is stuck).
// With `sharing`, ops slow each other or are carried by flows.
struct Sharing;
Op run_events(const Program&, const Time* dur, const std::int32_t* priority, Timeline& out,
              const Sharing* sharing = nullptr);

struct Replayed {  // what slack and the critical path need of a graph and its timeline
    std::span<const Op> order;
    std::span<const std::int64_t> dep_ptr;
    std::span<const Op> dep_src;
    std::span<const Op> previous;
    std::span<const Op> instance;
    std::span<const Op> drained;  // pairs (op, other)
    std::span<const Time> start, end;
};

// Of each instance its ops, ascending.
Csr members_of(std::span<const Op> instance);

// How much later each op could end without a longer step (twin: paceline/replay/slack.py).
void slack(const Replayed&, std::span<Time> out);

}  // namespace paceline
