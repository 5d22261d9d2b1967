// The dynamic program over chains of ideals, and the walk over the sub-ideals of one ideal.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "place_ideals.hpp"

namespace paceline::place {

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kNever = std::numeric_limits<double>::infinity();

// What the program reads of a problem, with sums over each ideal.
struct Tables {
    const Problem& p;
    const Ideals& ideals;
    std::vector<int32_t> touch_start, touches;   // CSR: hyperedges of each class
    std::vector<int32_t> pin_count;
    std::vector<double> work, cut;               // per ideal: accelerator time, weight cut by it

    Tables(const Problem& problem, const Ideals& lattice) : p(problem), ideals(lattice) {
        const auto edges = p.weight.size();
        touch_start.assign(p.classes + 1, 0);
        for (int32_t pin : p.pins) ++touch_start[pin + 1];
        std::partial_sum(touch_start.begin(), touch_start.end(), touch_start.begin());
        touches.resize(p.pins.size());
        std::vector<int32_t> fill(touch_start.begin(), touch_start.end() - 1);
        for (size_t e = 0; e < edges; ++e) {
            pin_count.push_back(p.pin_start[e + 1] - p.pin_start[e]);
            for (int32_t i = p.pin_start[e]; i < p.pin_start[e + 1]; ++i)
                touches[fill[p.pins[i]]++] = static_cast<int32_t>(e);
        }
        work.assign(ideals.count(), 0);
        for (int32_t i = 1; i < ideals.count(); ++i) {
            const int32_t c = ideals.first_child(i);
            work[i] = work[ideals.child(c)] + time_of(ideals.removed(c));
        }
    }
    double time_of(int32_t c) const { return p.supported[c] ? p.accelerator_time[c] : 0; }
    double total() const { return work.back(); }
};

// The most accelerator time that one CPU can take over within a load: a fractional knapsack.
double relief(const Problem& p, double load) {
    std::vector<int32_t> order;
    for (int32_t c = 0; c < p.classes; ++c)
        if (p.supported[c] && p.accelerator_time[c] > 0) order.push_back(c);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return p.cpu_time[a] * p.accelerator_time[b] < p.cpu_time[b] * p.accelerator_time[a];
    });
    double taken = 0;
    for (int32_t c : order) {
        if (p.cpu_time[c] > load) return taken + p.accelerator_time[c] * load / p.cpu_time[c];
        load -= p.cpu_time[c];
        taken += p.accelerator_time[c];
    }
    return taken;
}

// One run of the program that only looks for answers better than a bound.
class Run {
  public:
    Run(const Tables& tables, double bound, Clock::time_point deadline)
        : t_(tables), p_(tables.p), bound_(bound), relief_(p_.cpus ? relief(p_, bound) : 0),
          deadline_(deadline), columns_(p_.accelerators + 1), states_((p_.cpus + 1) * columns_),
          best_(static_cast<size_t>(t_.ideals.count()) * states_, kNever) {
        std::fill_n(best_.begin(), states_, 0.0);
    }
    void solve(int threads);
    bool out_of_time() const { return late_.load(); }
    int64_t pairs() const { return pairs_.load(); }
    double value() const { return best_.back(); }
    std::vector<Stage> stages() const;

  private:
    friend class Walk;
    double* row(int32_t ideal) { return &best_[static_cast<size_t>(ideal) * states_]; }
    const double* row(int32_t ideal) const { return &best_[static_cast<size_t>(ideal) * states_]; }
    double joined(double chain, double load) const {
        return p_.total ? chain + load : std::max(chain, load);
    }
    // Can `cpus` and `accelerators` do so much work, of which `cut` must be communicated?
    bool fits(int cpus, int accelerators, double work, double cut) const {
        if (p_.total) return true;
        const double room = accelerators * bound_ + cpus * relief_;
        return (cpus ? work : work + cut) <= room * (1 + 1e-9) + 1e-12;
    }

    const Tables& t_;
    const Problem& p_;
    double bound_, relief_;
    Clock::time_point deadline_;
    int columns_, states_;
    std::vector<double> best_;
    std::atomic<bool> late_{false};
    std::atomic<int64_t> pairs_{0};
};

// Walks all sub-ideals of one ideal as a tree: classes leave in descending order, so each
// sub-ideal is met once. Sums along the path give the load of what has left.
class Walk {
  public:
    explicit Walk(const Run& run)
        : run_(run), t_(run.t_), p_(run.p_), met_(p_.weight.size()), open_(p_.weight.size()),
          state_(run.states_), alive_(run.states_) {}

    // The best values of one ideal, from those of its sub-ideals.
    int64_t relax(int32_t ideal, double* result) {
        seen_ = 0;
        if (!enter(ideal)) return 0;
        std::copy(alive_.begin(), alive_.end(), state_.begin());
        lower_cap();
        descend(ideal, p_.classes, Sums{});
        close(result);
        return seen_;
    }

    struct Link {
        int32_t ideal = -1;
        bool on_cpu = false;
        int replicas = 1;
        double load = 0;
    };
    // The sub-ideal from which state (cpus, accelerators) of an ideal got its value.
    Link link(int32_t ideal, int cpus, int accelerators) {
        enter(ideal);
        wanted_ = run_.row(ideal)[cpus * run_.columns_ + accelerators];
        want_cpus_ = cpus;
        want_accelerators_ = accelerators;
        link_ = {};
        std::fill(state_.begin(), state_.end(), wanted_);
        cap_ = std::nextafter(wanted_, kNever);
        descend(ideal, p_.classes, Sums{});
        want_cpus_ = -1;
        return link_;
    }

  private:
    struct Sums {
        double work = 0, cpu = 0, size = 0, lasting = 0, passing = 0;
        bool supported = true;
    };

    // Prepare for the sub-ideals of `ideal`; false where no state of it can be of use.
    bool enter(int32_t ideal) {
        const Ideals& ideals = t_.ideals;
        double cut = 0;
        for (size_t e = 0; e < p_.weight.size(); ++e) {
            int inside = 0;
            for (int32_t i = p_.pin_start[e]; i < p_.pin_start[e + 1]; ++i)
                inside += ideals.contains(ideal, p_.pins[i]);
            open_[e] = inside < t_.pin_count[e];
            if (inside && open_[e]) cut += p_.weight[e];
        }
        useful_.clear();
        for (int c = 0; c <= p_.cpus; ++c)
            for (int a = 0; a <= p_.accelerators; ++a) {
                const bool fits =
                    run_.fits(c, a, t_.work[ideal], cut) &&
                    run_.fits(p_.cpus - c, p_.accelerators - a, t_.total() - t_.work[ideal], cut);
                alive_[c * run_.columns_ + a] = fits ? run_.bound_ : -kNever;
                if (fits) useful_.push_back(c * run_.columns_ + a);
            }
        return !useful_.empty();
    }
    void lower_cap() {
        cap_ = -kNever;
        for (const int s : useful_) cap_ = std::max(cap_, state_[s]);
    }

    void descend(int32_t ideal, int32_t below, const Sums& sums) {
        const Ideals& ideals = t_.ideals;
        const int32_t end = ideals.last_child(ideal);
        for (int32_t c = ideals.first_child(ideal); c < end && ideals.removed(c) < below; ++c) {
            const int32_t leaving = ideals.removed(c);
            Sums now = sums;
            leave(leaving, now);
            const bool on_accelerator = now.supported && now.size <= p_.memory &&
                                        now.work + now.lasting < cap_ * p_.max_replicas;
            const bool on_cpu = p_.cpus && now.cpu < cap_;
            if (on_accelerator || on_cpu) {
                ++seen_;
                const int32_t sub = ideals.child(c);
                if (on_accelerator) use_accelerators(sub, now);
                if (on_cpu) use(sub, now.cpu, true, 1);
                descend(sub, leaving, now);
            }
            come_back(leaving);
        }
    }
    void leave(int32_t leaving, Sums& now) {
        now.work += t_.time_of(leaving);
        now.cpu += p_.cpu_time[leaving];
        now.size += p_.size[leaving];
        now.supported &= p_.supported[leaving] != 0;
        for (int32_t i = t_.touch_start[leaving]; i < t_.touch_start[leaving + 1]; ++i) {
            const int32_t e = t_.touches[i];
            const int32_t met = ++met_[e];
            if (met == 1) (open_[e] ? now.lasting : now.passing) += p_.weight[e];
            if (met == t_.pin_count[e]) now.passing -= p_.weight[e];
        }
    }
    void come_back(int32_t leaving) {
        for (int32_t i = t_.touch_start[leaving]; i < t_.touch_start[leaving + 1]; ++i)
            --met_[t_.touches[i]];
    }
    void use_accelerators(int32_t sub, const Sums& now) {
        const double load = now.work + now.lasting + std::max(now.passing, 0.0);
        use(sub, load, false, 1);
        for (int r = 2; r <= p_.max_replicas; ++r)
            use(sub, (load + 4.0 * (r - 1) / r * now.size * p_.sync_cost) / r, false, r);
    }
    void use(int32_t sub, double load, bool on_cpu, int replicas) {
        if (load >= cap_) return;
        if (want_cpus_ >= 0) return check(sub, load, on_cpu, replicas);
        const double* from = run_.row(sub);
        const int skip = on_cpu ? run_.columns_ : replicas;
        bool better = false;
        for (const int s : useful_) {
            if ((on_cpu ? s : s % run_.columns_) < skip) continue;
            const double value = run_.joined(from[s - skip], load);
            better |= value < state_[s];
            state_[s] = std::min(value, state_[s]);
        }
        if (better) lower_cap();
    }
    void check(int32_t sub, double load, bool on_cpu, int replicas) {
        const int c = want_cpus_ - on_cpu, a = want_accelerators_ - (on_cpu ? 0 : replicas);
        if (link_.ideal >= 0 || c < 0 || a < 0) return;
        if (run_.joined(run_.row(sub)[c * run_.columns_ + a], load) == wanted_)
            link_ = {sub, on_cpu, replicas, load};
    }
    // Fewer devices are as good as more; states that did not beat the bound are out of reach.
    void close(double* result) const {
        for (int c = 0; c <= p_.cpus; ++c)
            for (int a = 0; a <= p_.accelerators; ++a) {
                const int s = c * run_.columns_ + a;
                double value = alive_[s] > 0 && state_[s] < alive_[s] ? state_[s] : kNever;
                if (a) value = std::min(value, result[s - 1]);
                if (c) value = std::min(value, result[s - run_.columns_]);
                result[s] = value;
            }
    }

    const Run& run_;
    const Tables& t_;
    const Problem& p_;
    std::vector<int32_t> met_;       // members of each hyperedge that have left
    std::vector<uint8_t> open_;      // has the hyperedge members outside the ideal?
    std::vector<double> state_, alive_;
    std::vector<int32_t> useful_;    // states that may lie on a path better than the bound
    double cap_ = 0;                 // loads from here on help no state of this ideal
    int64_t seen_ = 0;
    double wanted_ = 0;
    int want_cpus_ = -1, want_accelerators_ = 0;
    Link link_;
};

// Ideals of one size depend on smaller ones only: a level is shared out, then all wait.
void Run::solve(int threads) {
    const auto& levels = t_.ideals.level_start();
    std::vector<std::atomic<int32_t>> next(levels.size());
    for (size_t i = 0; i < levels.size(); ++i) next[i] = std::max(levels[i], 1);
    std::barrier turn(threads);
    auto work = [&] {
        Walk walk(*this);
        int64_t pairs = 0;
        for (size_t level = 0; level + 1 < levels.size(); ++level) {
            for (int32_t i; !late_ && (i = next[level]++) < levels[level + 1];) {
                pairs += walk.relax(i, row(i));
                if (Clock::now() > deadline_) late_ = true;
            }
            turn.arrive_and_wait();
        }
        pairs_ += pairs;
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    for (auto& thread : others) thread.join();
}

std::vector<Stage> Run::stages() const {
    Walk walk(*this);
    std::vector<Stage> found;
    auto ideal = static_cast<int32_t>(t_.ideals.count() - 1);
    for (int c = p_.cpus, a = p_.accelerators; ideal > 0;) {
        const double value = row(ideal)[c * columns_ + a];
        if (a && row(ideal)[c * columns_ + a - 1] == value) { --a; continue; }
        if (c && row(ideal)[(c - 1) * columns_ + a] == value) { --c; continue; }
        const auto link = walk.link(ideal, c, a);
        if (link.ideal < 0) break;
        Stage stage{link.on_cpu, link.replicas, link.load, {}};
        for (int32_t i = 0; i < p_.classes; ++i)
            if (t_.ideals.contains(ideal, i) && !t_.ideals.contains(link.ideal, i))
                stage.classes.push_back(i);
        found.push_back(std::move(stage));
        (link.on_cpu ? c : a) -= link.replicas;
        ideal = link.ideal;
    }
    std::reverse(found.begin(), found.end());
    return found;
}

// Bounds to try one after another, as shares of the way from the lower to the upper bound. A run
// costs about the same whether it refutes or finds, but less under a low bound: where the two are
// far apart, a first run half-way pays.
std::vector<double> shares(const Limits& limits, int64_t ideals) {
    const bool far = limits.upper_bound > 1.3 * limits.lower_bound;
    if (ideals > 2000 && far && limits.lower_bound > 0) return {0.4, 1.0};
    return {1.0};
}

}  // namespace

Answer place(const Problem& problem, const Limits& limits) {
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(limits.seconds));
    Answer answer;
    answer.lower_bound = limits.lower_bound;
    const Ideals ideals(problem, limits.ideals, limits.seconds);
    answer.ideals = ideals.count();
    if (!ideals.complete()) {
        answer.status = ideals.out_of_time() ? Status::OutOfTime : Status::TooManyIdeals;
        return answer;
    }
    const Tables tables(problem, ideals);
    for (double share : shares(limits, answer.ideals)) {
        const double bound =
            limits.lower_bound + share * (limits.upper_bound - limits.lower_bound);
        Run run(tables, bound, deadline);
        run.solve(std::max(1, limits.threads));
        answer.pairs += run.pairs();
        if (run.out_of_time()) {
            answer.status = Status::OutOfTime;
            return answer;
        }
        if (run.value() < bound) {
            answer.status = Status::Optimal;
            answer.value = answer.lower_bound = run.value();
            answer.stages = run.stages();
            return answer;
        }
        answer.lower_bound = std::max(answer.lower_bound, bound);
    }
    answer.status = Status::NothingBetter;
    return answer;
}

}  // namespace paceline::place
