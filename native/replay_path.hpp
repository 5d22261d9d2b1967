// The critical path of a replay: the chain of ops that the length of the step hangs on.
// Twin: paceline/replay/paths.py.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "replay.hpp"

namespace paceline {

// Why an op on the path did not start earlier, numbered as in paths.py.
enum class Reason : std::uint8_t { kFirst, kDependency, kLane, kMember, kDrain };

struct OnPath {
    Op op;
    Reason reason;
};

class CriticalPath {
  public:
    // `members`: of each instance its ops, ascending.
    CriticalPath(const Replayed& replayed, std::span<const Time> ready, const Csr& members)
        : t_(replayed), ready_(ready), members_(members) {}

    // From the op that ends last back to one with nothing before it.
    std::vector<OnPath> backwards() const {
        std::vector<OnPath> found;
        Op op = static_cast<Op>(std::max_element(t_.end.begin(), t_.end.end()) - t_.end.begin());
        for (bool arrives = false; op != kNone;) {  // `arrives`: it matters by its arrival alone
            const bool started = arrives || t_.start[op] == ready_[op];
            const OnPath before = started ? before_arrival(op) : before_start(op);
            found.push_back({op, before.reason});
            op = before.op;
            arrives = before.reason == Reason::kMember;
        }
        return found;
    }

  private:
    // What let `op` take its lane when it did.
    OnPath before_arrival(Op op) const {
        if (ready_[op] == 0) return {kNone, Reason::kFirst};
        Op found = kNone;
        for (auto edge = t_.dep_ptr[op]; edge < t_.dep_ptr[op + 1]; ++edge) {
            const Op dep = t_.dep_src[edge];
            if (t_.end[dep] == ready_[op] && (found == kNone || dep < found)) found = dep;
        }
        if (found != kNone) return {found, Reason::kDependency};
        return {t_.previous[op], Reason::kLane};
    }

    // What let `op` start later than it had arrived.
    OnPath before_start(Op op) const {
        if (t_.instance[op] != kNone) return {last_to_arrive(op), Reason::kMember};
        return {last_drained(op), Reason::kDrain};
    }

    Op last_to_arrive(Op op) const {
        const auto all = members_.row(t_.instance[op]);
        return *std::max_element(all.begin(), all.end(),
                                 [&](Op a, Op b) { return ready_[a] < ready_[b]; });
    }

    Op last_drained(Op op) const {
        Op found = kNone;
        for (std::size_t i = 0; i < t_.drained.size(); i += 2)
            if (t_.drained[i] == op && (found == kNone || t_.end[t_.drained[i + 1]] > t_.end[found]))
                found = t_.drained[i + 1];
        return found;
    }

    const Replayed& t_;
    std::span<const Time> ready_;
    const Csr& members_;
};

}  // namespace paceline
