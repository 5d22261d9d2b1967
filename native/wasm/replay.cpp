// Exports replay_pull, replay_events and replay_slack: a program and durations in, columns out.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "exported.hpp"
#include "replay.hpp"
#include "replay_sharing.hpp"

using namespace paceline;

namespace {

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

    ColumnsTable columns() const {
        static_assert(sizeof(std::pair<Op, Op>) == 2 * sizeof(Op));
        return {ready_.data(), start_.data(), end_.data(), previous_.data(), order_.data(),
                reinterpret_cast<const Op*>(drained_.data()),
                static_cast<std::uint32_t>(drained_.size()), static_cast<std::uint32_t>(finished_),
                &step_};
    }

  private:
    void pull(const Time* dur) {
        Timeline out{ready_, start_, end_, {}, {}, {}};
        paceline::pull(p_, dur, scratch_.data(), out);
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
    std::vector<std::pair<Op, Op>> drained_;
    Op finished_ = 0;
    Time step_ = 0;
};

struct SlackTable {
    std::uint32_t ops, edges, drained_pairs;
    const Op* order;
    const std::int64_t* dep_ptr;
    const Op *dep_src, *previous, *instance, *drained;
    const Time *start, *end;
    Time* out;
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

EXPORTED(replayer_columns) void replayer_columns(const Replayer* r, ColumnsTable* out) {
    *out = r->columns();
}

EXPORTED(slack_of) void slack_of(const SlackTable* t) {
    slack({column(t->order, t->ops), column(t->dep_ptr, t->ops + 1), column(t->dep_src, t->edges),
           column(t->previous, t->ops), column(t->instance, t->ops),
           column(t->drained, 2 * t->drained_pairs), column(t->start, t->ops),
           column(t->end, t->ops)},
          {t->out, t->ops});
}
