#include "replay_draws.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace paceline {
namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ull;

Time drawn(const Samples& s, std::uint64_t key, Op op) {
    const std::uint64_t random = mix(key + kGolden * static_cast<std::uint64_t>(op)) >> 32;
    const Time* first = s.value.data() + s.ptr[op];
    const auto size = static_cast<std::uint64_t>(s.ptr[op + 1] - s.ptr[op]);
    if (!s.interpolate) return first[(random * size) >> 32];
    const std::uint64_t place = random * (size - 1);
    const std::uint64_t at = place >> 32, part = place & 0xffffffffull;
    if (part == 0) return first[at];
    const auto gap = static_cast<unsigned __int128>(first[at + 1] - first[at]);
    return first[at] + static_cast<Time>((gap * part) >> 32);
}

// Positions on the critical path of a pull, by the rule of paceline/replay/paths.py.
class PullPath {
  public:
    explicit PullPath(const Program& p) : p_(p), run_of_(p.joined.empty() ? 0 : p.ops, kNone) {
        for (std::size_t run = 0; run < p.joined.size(); ++run)
            for (Op at = p.joined[run].begin; at < p.joined[run].end; ++at)
                run_of_[at] = static_cast<Op>(run);
    }

    template <class Count>
    void walk(const Time* end, const Time* dur, Time step, Count count) const {
        Op at = kNone;
        for (Op i = 0; i < p_.ops; ++i)
            if (end[i] == step && (at == kNone || p_.order[i] < p_.order[at])) at = i;
        bool arrival = false;
        while (at != kNone) {
            count(p_.order[at]);
            const Time ready = ready_of(end, at);
            if (!arrival && end[at] - dur[p_.order[at]] > ready) {
                at = last_member(end, p_.joined[run_of_[at]]);
                arrival = true;
            } else {
                at = cause(end, at, ready);
                arrival = false;
            }
        }
    }

  private:
    Time ready_of(const Time* end, Op at) const {
        Time ready = 0;
        for (const Op before : p_.preds.row(at)) ready = std::max(ready, end[before]);
        return ready;
    }

    Op last_member(const Time* end, const Run& run) const {
        Op best = run.begin;  // members stand in id order: the first of the latest wins
        for (Op at = run.begin + 1; at < run.end; ++at)
            if (ready_of(end, at) > ready_of(end, best)) best = at;
        return best;
    }

    Op cause(const Time* end, Op at, Time ready) const {
        if (ready == 0) return kNone;
        const auto row = p_.preds.row(at);
        const bool lane_first = p_.lane_first[at];
        Op best = kNone;
        for (const Op before : row.subspan(lane_first))
            if (end[before] == ready && (best == kNone || p_.order[before] < p_.order[best]))
                best = before;
        return best == kNone && lane_first ? row[0] : best;
    }

    const Program& p_;
    std::vector<Op> run_of_;
};

struct Columns {  // one thread's timeline of an event replay
    explicit Columns(Op n)
        : ready(n), start(n), end(n), previous(n), order(n),
          view{ready, start, end, previous, order, {}} {}
    std::vector<Time> ready, start, end;
    std::vector<Op> previous, order;
    Timeline view;
};

// The same walk over a timeline of events.
template <class Count>
void walk_events(const Program& p, const DrawInput& in, const Columns& t, Count count) {
    const auto latest = [&](const auto& ops, const std::vector<Time>& time) {
        Op best = kNone;  // ops ascend: the first of the latest wins
        for (const Op op : ops)
            if (best == kNone || time[op] > time[best]) best = op;
        return best;
    };
    Op op = static_cast<Op>(std::max_element(t.end.begin(), t.end.end()) - t.end.begin());
    bool arrival = false;
    while (op != kNone) {
        count(op);
        if (!arrival && t.start[op] > t.ready[op]) {
            arrival = !p.instance_of.empty() && p.instance_of[op] != kNone;
            if (arrival) {
                op = latest(p.members.row(p.instance_of[op]), t.ready);
            } else {
                std::vector<Op> others;
                for (const auto& [drain, other] : t.view.drained)
                    if (drain == op) others.push_back(other);
                std::sort(others.begin(), others.end());
                op = latest(others, t.end);
            }
            continue;
        }
        arrival = false;
        if (t.ready[op] == 0) return;
        Op best = kNone;
        for (auto e = in.dep_ptr[op]; e < in.dep_ptr[op + 1]; ++e)
            if (const Op dep = in.dep_src[e];
                t.end[dep] == t.ready[op] && (best == kNone || dep < best))
                best = dep;
        op = best == kNone ? t.previous[op] : best;
    }
}

class Worker {
  public:
    Worker(const Program& p, const DrawInput& in)
        : p_(p), in_(in), path_(p), dur_(in.dur.begin(), in.dur.end()), critical_(p.ops),
          end_(p.by_pull ? p.ops : 0), columns_(p.by_pull ? 0 : p.ops) {
        for (Op op = 0; op < p.ops; ++op)
            if (in.samples.ptr[op + 1] > in.samples.ptr[op]) sampled_.push_back(op);
    }

    Time replay(std::uint64_t draw) {
        const std::uint64_t key = mix(in_.seed + kGolden * (draw + 1));
        for (const Op op : sampled_) dur_[op] = drawn(in_.samples, key, op);
        const auto count = [&](Op op) { ++critical_[op]; };
        if (p_.by_pull) {
            const Time step = pull_step(p_, dur_.data(), end_.data());
            path_.walk(end_.data(), dur_.data(), step, count);
            return step;
        }
        columns_.view.drained.clear();
        const Time* dur = dur_.data();
        if (run_events(p_, dur, in_.priority.data(), columns_.view, in_.sharing) < p_.ops)
            return -1;
        walk_events(p_, in_, columns_, count);
        return *std::max_element(columns_.end.begin(), columns_.end.end());
    }

    const std::vector<std::uint32_t>& critical() const { return critical_; }

  private:
    const Program& p_;
    const DrawInput& in_;
    PullPath path_;
    std::vector<Op> sampled_;
    std::vector<Time> dur_;
    std::vector<std::uint32_t> critical_;
    std::vector<Time> end_;
    Columns columns_;
};

}  // namespace

Draws draw_many(const Program& p, const DrawInput& in, std::size_t count) {
    Draws out{std::vector<Time>(count), std::vector<std::uint32_t>(p.ops)};
    std::atomic<std::size_t> next{0};
    std::vector<Worker> workers;
    workers.reserve(in.threads);
    for (int i = 0; i < in.threads; ++i) workers.emplace_back(p, in);
    std::vector<std::thread> threads;
    for (Worker& worker : workers)
        threads.emplace_back([&] {
            for (std::size_t draw; (draw = next++) < count;) out.step[draw] = worker.replay(draw);
        });
    for (auto& thread : threads) thread.join();
    for (const Worker& worker : workers)
        for (Op op = 0; op < p.ops; ++op) out.critical[op] += worker.critical()[op];
    return out;
}

}  // namespace paceline
