// Slack: one pass backwards over a timeline; each op bounds the latest end of what it waited for.
#include <algorithm>

#include "replay.hpp"

namespace paceline {
namespace {

Csr rows_of(std::span<const Op> keys, std::span<const Op> values) {
    const Op rows = keys.empty() ? 0 : *std::max_element(keys.begin(), keys.end()) + 1;
    return group_by(rows, keys, values);
}

Csr drained_by(std::span<const Op> pairs) {
    std::vector<Op> keys, others;
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
        keys.push_back(pairs[i]);
        others.push_back(pairs[i + 1]);
    }
    return rows_of(keys, others);
}

}  // namespace

Csr members_of(std::span<const Op> instance) {
    std::vector<Op> keys, ops;
    for (std::size_t op = 0; op < instance.size(); ++op)
        if (instance[op] != kNone) {
            keys.push_back(instance[op]);
            ops.push_back(static_cast<Op>(op));
        }
    return rows_of(keys, ops);
}

void slack(const Replayed& t, std::span<Time> late) {
    const Csr members = members_of(t.instance), drained = drained_by(t.drained);
    std::vector<Op> unseen(members.ptr.size() - 1);
    for (std::size_t i = 0; i < unseen.size(); ++i)
        unseen[i] = static_cast<Op>(members.row(i).size());
    const Time step = t.end.empty() ? 0 : *std::max_element(t.end.begin(), t.end.end());
    std::fill(late.begin(), late.end(), step);
    const auto latest_start = [&](Op op) { return late[op] - (t.end[op] - t.start[op]); };
    const auto bound = [&](Op op, Time by) {
        for (auto e = t.dep_ptr[op]; e < t.dep_ptr[op + 1]; ++e)
            late[t.dep_src[e]] = std::min(late[t.dep_src[e]], by);
        if (static_cast<std::size_t>(op) + 1 < drained.ptr.size())
            for (const Op other : drained.row(op)) late[other] = std::min(late[other], by);
        if (t.previous[op] != kNone) late[t.previous[op]] = std::min(late[t.previous[op]], by);
    };
    for (auto at = t.order.rbegin(); at != t.order.rend(); ++at) {
        const Op instance = t.instance[*at];
        if (instance == kNone) {
            bound(*at, latest_start(*at));
        } else if (--unseen[instance] == 0) {  // every member's latest end is known
            Time by = step;
            for (const Op member : members.row(instance)) by = std::min(by, latest_start(member));
            for (const Op member : members.row(instance)) bound(member, by);
        }
    }
    for (std::size_t op = 0; op < late.size(); ++op) late[op] -= t.end[op];
}

}  // namespace paceline
