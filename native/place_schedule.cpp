#include "place_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace paceline::place {

namespace {

int64_t shared(int64_t work, int64_t among) { return (work + among - 1) / among; }

int64_t tensor_cycles(const Operators& o, int row, const Accelerator& a, int64_t cores) {
    const int64_t tiles = o.g[row] * shared(o.k[row], a.depth) * shared(o.n[row], a.width);
    const int64_t rows_apart = std::max<int64_t>(1, cores / tiles);
    const int64_t rounds = shared(tiles * rows_apart, cores);
    return rounds * std::max(shared(o.m[row], rows_apart), a.depth) + a.depth + a.width;
}

int64_t vector_cycles(const Operators& o, int row, const Accelerator& a, int64_t cores) {
    return shared(o.m[row] * o.k[row] * o.g[row], a.width * cores);
}

int64_t moving_cycles(const Operators& o, int row, const Accelerator& a) {
    const double m = static_cast<double>(o.m[row]), k = static_cast<double>(o.k[row]);
    const double n = static_cast<double>(o.n[row]), g = static_cast<double>(o.g[row]);
    double elements = 0;
    if (o.unit[row]) {
        elements = std::max(0.0, 2.0 * m * g - a.buffer_elements);
    } else {
        const double once = m * k + k * n + m * n;
        const double blocked = 2.0 * m * k * n / std::sqrt(a.buffer_elements);
        elements = g * (once <= a.buffer_elements ? once : std::max(once, blocked));
    }
    return static_cast<int64_t>(
        std::ceil(elements * a.element_bytes / a.bytes_per_s * a.clock_hz));
}

// The tasks of one workload, and the schedules of them; made once, reused for every workload.
class Scheduler {
  public:
    Scheduler(const Operators& operators, const Accelerator& accelerator)
        : o_(operators), a_(accelerator) {}
    std::pair<int64_t, int64_t> solve(int workload);

  private:
    void price();
    void order();
    int64_t lower() const;
    int64_t list(bool thrifty);
    void start(int unit, bool thrifty, int64_t now);
    int64_t cores(int i) const { return a_.cores[o_.unit[first_ + i]]; }
    bool whole(int i, bool thrifty) const { return !thrifty || 2 * one_[i] > all_[i] * cores(i); }
    template <typename Visit>
    void each_before(int i, Visit visit) const {
        for (int at = o_.after_ptr[first_ + i]; at < o_.after_ptr[first_ + i + 1]; ++at)
            visit(o_.after[at]);
    }

    using Running = std::tuple<int64_t, int, int64_t>;  // end, task, cores taken
    const Operators& o_;
    const Accelerator& a_;
    int first_ = 0, count_ = 0;
    std::vector<int64_t> one_, all_, tail_;
    std::vector<std::vector<int>> readers_;
    std::vector<int> waits_, ready_[2];
    int64_t free_[2] = {0, 0};
    std::priority_queue<Running, std::vector<Running>, std::greater<Running>> running_;
};

std::pair<int64_t, int64_t> Scheduler::solve(int workload) {
    first_ = o_.workload[workload];
    count_ = o_.workload[workload + 1] - first_;
    price();
    order();
    return {lower(), std::min(list(false), list(true))};
}

void Scheduler::price() {
    one_.assign(count_, 0);
    all_.assign(count_, 0);
    for (int i = 0; i < count_; ++i) {
        const auto cycles = o_.unit[first_ + i] ? vector_cycles : tensor_cycles;
        const int64_t moving = moving_cycles(o_, first_ + i, a_);
        one_[i] = std::max(cycles(o_, first_ + i, a_, 1), moving);
        all_[i] = std::min(one_[i], std::max(cycles(o_, first_ + i, a_, cores(i)), moving));
    }
}

// Who reads each task, and the longest path from each task's start to the end.
void Scheduler::order() {
    readers_.resize(std::max<size_t>(readers_.size(), count_));
    for (int i = 0; i < count_; ++i) readers_[i].clear();
    tail_ = all_;
    for (int i = count_ - 1; i >= 0; --i)
        each_before(i, [&](int b) { tail_[b] = std::max(tail_[b], all_[b] + tail_[i]); });
    for (int i = 0; i < count_; ++i)
        each_before(i, [&](int b) { readers_[b].push_back(i); });
}

int64_t Scheduler::lower() const {
    int64_t best = 0, work[2] = {0, 0};
    std::vector<int64_t> ends(count_);
    for (int i = 0; i < count_; ++i) {
        int64_t begin = 0;
        each_before(i, [&](int b) { begin = std::max(begin, ends[b]); });
        ends[i] = begin + std::min(one_[i], all_[i]);
        best = std::max(best, ends[i]);
        work[o_.unit[first_ + i]] += std::min(one_[i], all_[i] * cores(i));
    }
    for (int unit : {0, 1}) best = std::max(best, shared(work[unit], a_.cores[unit]));
    return best;
}

void Scheduler::start(int unit, bool thrifty, int64_t now) {
    auto& waiting = ready_[unit];
    std::stable_sort(waiting.begin(), waiting.end(),
                     [&](int a, int b) { return tail_[a] > tail_[b]; });
    size_t begun = 0;
    for (; begun < waiting.size(); ++begun) {
        const int i = waiting[begun];
        const bool all = whole(i, thrifty);
        const int64_t taken = all ? a_.cores[unit] : 1;
        if (free_[unit] < taken) break;
        free_[unit] -= taken;
        running_.emplace(now + (all ? all_[i] : one_[i]), i, taken);
    }
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(begun));
}

int64_t Scheduler::list(bool thrifty) {
    waits_.assign(count_, 0);
    for (int unit : {0, 1}) {
        ready_[unit].clear();
        free_[unit] = a_.cores[unit];
    }
    for (int i = 0; i < count_; ++i) {
        each_before(i, [&](int) { ++waits_[i]; });
        if (!waits_[i]) ready_[o_.unit[first_ + i]].push_back(i);
    }
    for (int64_t now = 0;;) {
        for (int unit : {0, 1}) start(unit, thrifty, now);
        if (running_.empty()) return now;
        now = std::get<0>(running_.top());
        while (!running_.empty() && std::get<0>(running_.top()) == now) {
            const auto [end, i, taken] = running_.top();
            running_.pop();
            free_[o_.unit[first_ + i]] += taken;
            for (int reader : readers_[i])
                if (!--waits_[reader]) ready_[o_.unit[first_ + reader]].push_back(reader);
        }
    }
}

}  // namespace

Makespans makespans(const Operators& operators, const Accelerator& accelerator) {
    Scheduler scheduler(operators, accelerator);
    Makespans found;
    for (size_t w = 0; w + 1 < operators.workload.size(); ++w) {
        const auto [lower, greedy] = scheduler.solve(static_cast<int>(w));
        found.lower.push_back(lower);
        found.greedy.push_back(greedy);
    }
    return found;
}

}  // namespace paceline::place
