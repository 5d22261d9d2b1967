// Exports replay: a program and durations in, columns, slack and the critical path out.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "exported.hpp"
#include "replay.hpp"
#include "replay_path.hpp"
#include "replay_sharing.hpp"

using namespace paceline;

namespace {

struct WaitsTable {  // what ops of a graph wait for
    std::uint32_t ops, edges, lanes;
    const Op *lane, *instance;
    const std::int64_t* dep_ptr;
    const Op* dep_src;
};

struct ColumnsTable {
    const Time *ready, *start, *end;
    const Op *previous, *order;  // of events only
    const Op* drained;           // pairs (op, other), sorted
    std::uint32_t drained_pairs, finished;
    const Time* step;  // the last end; -1 where the replay is stuck
};

// The columns of one replay, kept from replay to replay of the same program.
class Replayer {
  public:
    explicit Replayer(const Program& program) : p_(program), scratch_(p_.by_pull ? p_.ops : 0) {}

    void run(const Time* dur, const std::int32_t* priority, const Sharing* sharing) {
        for (auto* column : {&ready_, &start_, &end_}) column->resize(p_.ops);
        if (p_.by_pull) {
            pull(dur);
        } else {
            events(dur, priority, sharing);
        }
        step_ = finished_ < p_.ops ? kNone : *std::max_element(end_.begin(), end_.end());
    }

    Time step(const Time* dur, const std::int32_t* priority, const Sharing* sharing) {
        if (p_.by_pull) return pull_step(p_, dur, scratch_.data());
        run(dur, priority, sharing);
        return step_;
    }

    // How much later each op of the last replay could end without a longer step.
    void slack(const WaitsTable& t, Time* out) {
        paceline::slack(replayed(t), {out, t.ops});
    }

    // Fills the critical path of the last replay, the last op first; returns how many there are.
    std::uint32_t path(const WaitsTable& t, Op* out) {
        if (members_.ptr.empty()) members_ = members_of(column(t.instance, t.ops));
        const Replayed last = replayed(t);
        const std::vector<OnPath> found = CriticalPath(last, ready_, members_).backwards();
        std::transform(found.begin(), found.end(), out, [](OnPath each) { return each.op; });
        return static_cast<std::uint32_t>(found.size());
    }

    ColumnsTable columns() const {
        static_assert(sizeof(std::pair<Op, Op>) == 2 * sizeof(Op));
        return {ready_.data(), start_.data(), end_.data(), previous_.data(), order_.data(),
                reinterpret_cast<const Op*>(drained_.data()),
                static_cast<std::uint32_t>(drained_.size()), static_cast<std::uint32_t>(finished_),
                &step_};
    }

  private:
    Replayed replayed(const WaitsTable& t) {
        static_assert(sizeof(std::pair<Op, Op>) == 2 * sizeof(Op));
        if (p_.by_pull && previous_.empty()) previous_ = before_on_lane(t);
        return {p_.by_pull ? std::span<const Op>(p_.order) : std::span<const Op>(order_),
                column(t.dep_ptr, t.ops + 1),
                column(t.dep_src, t.edges),
                previous_,
                column(t.instance, t.ops),
                column(reinterpret_cast<const Op*>(drained_.data()), 2 * drained_.size()),
                start_,
                end_};
    }

    static std::vector<Op> before_on_lane(const WaitsTable& t) {  // where lanes run in recorded order
        std::vector<Op> last(t.lanes, kNone), found(t.ops);
        for (Op op = 0; op < static_cast<Op>(t.ops); ++op)
            found[op] = std::exchange(last[t.lane[op]], op);
        return found;
    }

    void pull(const Time* dur) {
        Timeline out{ready_, start_, end_, {}, {}, {}};
        paceline::pull(p_, dur, out);
        finished_ = p_.ops;
    }

    void events(const Time* dur, const std::int32_t* priority, const Sharing* sharing) {
        for (auto* column : {&previous_, &order_}) column->resize(p_.ops);
        for (auto* column : {&ready_, &end_})  // what tells a stuck replay's ops apart
            std::fill(column->begin(), column->end(), Time{kNone});
        Timeline out{ready_, start_, end_, previous_, order_, {}};
        finished_ = run_events(p_, dur, priority, out, sharing);
        drained_ = std::move(out.drained);
        std::sort(drained_.begin(), drained_.end());
    }

    const Program& p_;
    std::vector<Time> scratch_, ready_, start_, end_;
    std::vector<Op> previous_, order_;
    Csr members_;  // of instances, once somebody asked
    std::vector<std::pair<Op, Op>> drained_;
    Op finished_ = 0;
    Time step_ = 0;
};

struct ReplayedTable {
    std::uint32_t ops, edges, drained_pairs;
    const Op* order;
    const std::int64_t* dep_ptr;
    const Op *dep_src, *previous, *instance, *drained;
    const Time *start, *end;

    Replayed columns() const {
        return {column(order, ops),     column(dep_ptr, ops + 1), column(dep_src, edges),
                column(previous, ops),  column(instance, ops),    column(drained, 2 * drained_pairs),
                column(start, ops),     column(end, ops)};
    }
};

}  // namespace

EXPORTED(replayer_new) Replayer* replayer_new(const Program* p) { return new Replayer(*p); }
EXPORTED(replayer_delete) void replayer_delete(Replayer* r) { delete r; }

EXPORTED(replayer_run)
void replayer_run(Replayer* r, const Time* dur, const std::int32_t* priority,
                  const Sharing* sharing) {
    r->run(dur, priority, sharing);
}

// The step alone; -1 where the replay is stuck.
EXPORTED(replayer_step)
void replayer_step(Replayer* r, const Time* dur, const std::int32_t* priority,
                   const Sharing* sharing, Time* out) {
    *out = r->step(dur, priority, sharing);
}

EXPORTED(replayer_slack)
void replayer_slack(Replayer* r, const WaitsTable* waits, Time* out) {
    r->slack(*waits, out);
}

EXPORTED(replayer_path)
std::uint32_t replayer_path(Replayer* r, const WaitsTable* waits, Op* out) {
    return r->path(*waits, out);
}

EXPORTED(replayer_columns) void replayer_columns(const Replayer* r, ColumnsTable* out) {
    *out = r->columns();
}

EXPORTED(slack_of) void slack_of(const ReplayedTable* t, Time* out) {
    slack(t->columns(), {out, t->ops});
}

// Fills the critical path, the last op first, and why each op did not start earlier; returns how
// many there are.
EXPORTED(path_of)
std::uint32_t path_of(const ReplayedTable* t, const Time* ready, Op* ops, Reason* reasons) {
    const Replayed last = t->columns();
    const Csr members = members_of(last.instance);
    const auto found = CriticalPath(last, column(ready, t->ops), members).backwards();
    for (const OnPath& each : found) {
        *ops++ = each.op;
        *reasons++ = each.reason;
    }
    return static_cast<std::uint32_t>(found.size());
}
