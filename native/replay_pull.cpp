// Graphs whose lanes all run in recorded order: every op's times follow from its predecessors'.
#include <algorithm>

#include "replay.hpp"

namespace paceline {
namespace {

// Calls single(position) and joined(begin, end) in topological order.
template <class Single, class Joined>
void walk(const Program& p, Single single, Joined joined) {
    Op at = 0;
    for (const Run& run : p.joined) {
        for (; at < run.begin; ++at) single(at);
        joined(run.begin, run.end);
        at = run.end;
    }
    for (; at < p.ops; ++at) single(at);
}

// When the last of its predecessors ends; `end(position)`.
template <class End>
Time arrival(const Program& p, Op at, End end) {
    Time ready = 0;
    for (const Op before : p.preds.row(at)) ready = std::max(ready, end(before));
    return ready;
}

}  // namespace

void pull(const Program& p, const Time* dur, Timeline& out) {
    const auto end = [&](Op at) { return out.end[p.order[at]]; };
    const auto put = [&](Op op, Time ready, Time start) {
        out.ready[op] = ready;
        out.start[op] = start;
        out.end[op] = start + dur[op];
    };
    walk(
        p,
        [&](Op at) {
            const Time ready = arrival(p, at, end);
            put(p.order[at], ready, ready);
        },
        [&](Op begin, Op stop) {
            Time start = 0;
            for (Op at = begin; at < stop; ++at) {
                out.ready[p.order[at]] = arrival(p, at, end);
                start = std::max(start, out.ready[p.order[at]]);
            }
            for (Op at = begin; at < stop; ++at)
                put(p.order[at], out.ready[p.order[at]], start);
        });
}

Time pull_step(const Program& p, const Time* dur, Time* end) {
    Time step = 0;
    const auto ended = [&](Op at) { return end[at]; };
    walk(
        p,
        [&](Op at) {
            end[at] = arrival(p, at, ended) + dur[p.order[at]];
            step = std::max(step, end[at]);
        },
        [&](Op begin, Op stop) {
            Time start = 0;
            for (Op at = begin; at < stop; ++at) start = std::max(start, arrival(p, at, ended));
            for (Op at = begin; at < stop; ++at) {
                end[at] = start + dur[p.order[at]];
                step = std::max(step, end[at]);
            }
        });
    return step;
}

}  // namespace paceline
