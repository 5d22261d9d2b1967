// Exports what a replay says of a step: how long it takes, and of what the last one consists, for a
// mean rank: computing alone, computing while bytes move, bytes and waiting that nothing hides, and
// the rest. The step is that of paceline/predict/classes.py.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "exported.hpp"
#include "intervals.hpp"
#include "replay.hpp"

using namespace paceline;

namespace {

constexpr std::uint8_t kCompute = 0, kCollective = 2, kCopy = 6;  // kinds that move bytes: 2 to 6

struct StepTable {
    std::uint32_t ops, lanes, ranks, steps, updates, period;
    const Op* lane;            // of each op
    const std::uint8_t* kind;  // of each op
    const Op* step;            // of each op: which of the steps, counted from 0
    const Op* rank;            // of each lane: which of the ranks, counted from 0
    const Op* update;          // in order of steps; none: steps do not run into one another
};

struct TimesTable {
    const Time *ready, *start, *end;
};

struct ToldTable {
    double step, last, compute, hidden, exposed, other;  // `last`: the last end
};

class StepParts {  // looks at its columns as long as it lives
  public:
    explicit StepParts(const StepTable& t) : t_(t) {
        std::vector<Op> ops(t.ops);
        for (Op op = 0; op < static_cast<Op>(t.ops); ++op) ops[op] = op;
        by_lane_ = group_by(t.lanes, column(t.lane, t.ops), ops);
        std::vector<Op> lanes(t.lanes);
        for (Op lane = 0; lane < static_cast<Op>(t.lanes); ++lane) lanes[lane] = lane;
        by_rank_ = group_by(t.ranks, column(t.rank, t.lanes), lanes);
        computing_.resize(t.lanes);
        moving_.resize(t.lanes);
        for (const Op op : ops) {
            if (is_computing(t.kind[op])) computing_[t.lane[op]] = 1;
            if (is_moving(t.kind[op])) moving_[t.lane[op]] = 1;
        }
    }

    // Ops by lane, in the order in which they start.
    const Op* order() const { return by_lane_.item.data(); }

    void tell(const TimesTable& times, ToldTable& out) {
        sort(times);
        last_ends(times);
        const Time from = window_begin(), to = *std::max_element(ends_.begin(), ends_.end());
        out = {step(times), static_cast<double>(to), 0, 0, 0, 0};
        for (std::uint32_t rank = 0; rank < t_.ranks; ++rank) add_rank(times, rank, from, to, out);
        for (double* part : {&out.compute, &out.hidden, &out.exposed}) *part /= t_.ranks;
        out.other = static_cast<double>(to - from) - out.compute - out.hidden - out.exposed;
    }

  private:
    static bool is_computing(std::uint8_t kind) { return kind == kCompute; }
    static bool is_moving(std::uint8_t kind) { return kind >= kCollective && kind <= kCopy; }

    void sort(const TimesTable& times) {
        const auto earlier = [&](Op a, Op b) {
            if (times.start[a] != times.start[b]) return times.start[a] < times.start[b];
            return times.end[a] != times.end[b] ? times.end[a] < times.end[b] : a < b;
        };
        for (std::uint32_t lane = 0; lane < t_.lanes; ++lane) {
            const auto begin = by_lane_.item.begin() + by_lane_.begin(lane);
            const auto end = by_lane_.item.begin() + by_lane_.end(lane);
            for (auto at = begin; at != end && at + 1 != end; ++at)
                if (times.start[at[1]] < times.start[at[0]]) {
                    std::sort(begin, end, earlier);
                    break;
                }
        }
    }

    void last_ends(const TimesTable& times) {  // of each step
        ends_.assign(t_.steps, 0);
        for (std::uint32_t op = 0; op < t_.ops; ++op)
            ends_[t_.step[op]] = std::max(ends_[t_.step[op]], times.end[op]);
    }

    Time latest(std::size_t first, std::size_t last) const {
        return *std::max_element(ends_.begin() + first, ends_.begin() + std::min(last, ends_.size()));
    }

    Time window_begin() const {  // where the last period begins
        return t_.steps > t_.period ? latest(0, t_.steps - t_.period) : 0;
    }

    double step(const TimesTable& times) const {
        if (t_.updates) return between_updates(times);
        const std::uint32_t period = std::min(t_.period, t_.steps);
        const std::uint32_t borders = (t_.steps + period - 1) / period;
        const Time first = latest(0, period);
        if (borders == 1) return static_cast<double>(first / period);
        const Time whole = latest((borders - 1) * period, t_.steps) - first;
        return static_cast<double>(whole / (borders - 1) / period);
    }

    double between_updates(const TimesTable& times) const {
        const Time from = times.end[t_.update[0]], to = times.end[t_.update[t_.updates - 2]];
        return std::nearbyint(static_cast<double>(to - from) / (t_.updates - 2));
    }

    void add_rank(const TimesTable& times, std::uint32_t rank, Time from, Time to, ToldTable& out) {
        for (Intervals* list : {&compute_, &moves_, &talk_}) list->clear();
        for (const Op lane : by_rank_.row(rank)) {
            if (computing_[lane]) add_lane(times, lane, from, to, is_computing, times.start, compute_);
            if (!moving_[lane]) continue;
            add_lane(times, lane, from, to, is_moving, times.start, moves_);
            add_lane(times, lane, from, to, is_moving, times.ready, talk_);
        }
        const Time hidden = common(compute_, moves_);
        out.hidden += static_cast<double>(hidden);
        out.compute += static_cast<double>(length(compute_) - hidden);
        out.exposed += static_cast<double>(length(talk_) - common(compute_, talk_));
    }

    // Work of some kinds on a lane, from where it `begins`. A lane serves one op at a time, so that
    // begins rise.
    void add_lane(const TimesTable& times, Op lane, Time from, Time to,
                  bool (*wanted)(std::uint8_t), const Time* begins, Intervals& into) {
        const auto row = by_lane_.row(lane);
        const auto first = std::partition_point(
            row.begin(), row.end(), [&](Op op) { return times.end[op] <= from; });
        mine_.clear();
        for (auto at = first; at != row.end() && times.ready[*at] < to; ++at)
            if (wanted(t_.kind[*at]))
                add(mine_, std::max(begins[*at], from), std::min(times.end[*at], to));
        join(into, mine_, scratch_);
    }

    StepTable t_;
    Csr by_lane_;  // ops in the order in which they start
    Csr by_rank_;  // lanes
    std::vector<std::uint8_t> computing_, moving_;  // of each lane: whether any op does
    std::vector<Time> ends_;
    Intervals compute_, moves_, talk_, mine_, scratch_;
};

}  // namespace

EXPORTED(step_parts_new) StepParts* step_parts_new(const StepTable* t) { return new StepParts(*t); }
EXPORTED(step_parts_delete) void step_parts_delete(StepParts* parts) { delete parts; }

EXPORTED(step_parts_told)
void step_parts_told(StepParts* parts, const TimesTable* times, ToldTable* out) {
    parts->tell(*times, *out);
}

EXPORTED(step_parts_order) const Op* step_parts_order(const StepParts* parts) {
    return parts->order();
}
