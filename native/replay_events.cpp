// Graphs with PRIORITY lanes, drains or shared rates, replayed once from the beginning.
#include "replay_cores.hpp"
#include "replay_rounds.hpp"

namespace paceline {
namespace {

template <class R>
class Once : private Rounds<Once<R>, Program, R> {
    using Base = Rounds<Once<R>, Program, R>;
    friend Base;

  public:
    Once(const Program& p, const Time* dur, const std::int32_t* priority, const Sharing* sharing,
         Timeline& out)
        : Base(p, sharing), dur_(dur), priority_(priority), out_(out) {
        this->missing_ = p.waits_for;
        if (this->draining_) this->unlaunched_ = p.waits_for_launch;
    }

    Op run() {
        this->begin_at_zero();
        this->go_on(0);
        return this->finished_;
    }

  private:
    Time dur(Op op) const { return dur_[op]; }
    std::int32_t priority(Op op) const { return priority_[op]; }
    std::uint32_t key(Op op) const { return static_cast<std::uint32_t>(op); }
    Op by_key(std::uint32_t key) const { return static_cast<Op>(key); }
    void became_ready(Op, Time) {}
    void foresee(Op op) const {
        __builtin_prefetch(&dur_[op]);
        __builtin_prefetch(&priority_[op]);
    }
    void arrived(Op op, Time now, Op previous) {
        out_.ready[op] = now;
        out_.previous[op] = previous;
    }
    void started(Op op, Time now) { out_.start[op] = now; }
    void ended(Op op, Time now) {
        out_.end[op] = now;
        out_.order[this->finished_] = op;
    }
    void held(Op op, Op other) { out_.drained.emplace_back(op, other); }
    bool over(Time) { return false; }

    const Time* dur_;
    const std::int32_t* priority_;
    Timeline& out_;
};

}  // namespace

Op run_events(const Program& p, const Time* dur, const std::int32_t* priority, Timeline& out,
              const Sharing* sharing) {
    if (!sharing) return Once<FixedRates<Program>>(p, dur, priority, nullptr, out).run();
    if (sharing->hosts) return Once<CoreRates>(p, dur, priority, sharing, out).run();
    return Once<Rates<Program>>(p, dur, priority, sharing, out).run();
}

}  // namespace paceline
