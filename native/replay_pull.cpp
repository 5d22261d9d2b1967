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

inline Time arrival(const Program& p, const Time* end, Op at) {
    Time ready = 0;
    for (const Op before : p.preds.row(at)) ready = std::max(ready, end[before]);
    return ready;
}

}  // namespace

void pull(const Program& p, const Time* dur, Time* end, Timeline& out) {
    const auto put = [&](Op at, Time ready, Time start) {
        const Op op = p.order[at];
        end[at] = start + dur[op];
        out.ready[op] = ready;
        out.start[op] = start;
        out.end[op] = end[at];
    };
    walk(
        p,
        [&](Op at) {
            const Time ready = arrival(p, end, at);
            put(at, ready, ready);
        },
        [&](Op begin, Op stop) {
            Time start = 0;
            for (Op at = begin; at < stop; ++at) {
                out.ready[p.order[at]] = arrival(p, end, at);
                start = std::max(start, out.ready[p.order[at]]);
            }
            for (Op at = begin; at < stop; ++at) put(at, out.ready[p.order[at]], start);
        });
}

Time pull_step(const Program& p, const Time* dur, Time* end) {
    Time step = 0;
    walk(
        p,
        [&](Op at) {
            end[at] = arrival(p, end, at) + dur[p.order[at]];
            step = std::max(step, end[at]);
        },
        [&](Op begin, Op stop) {
            Time start = 0;
            for (Op at = begin; at < stop; ++at) start = std::max(start, arrival(p, end, at));
            for (Op at = begin; at < stop; ++at) {
                end[at] = start + dur[p.order[at]];
                step = std::max(step, end[at]);
            }
        });
    return step;
}

}  // namespace paceline
