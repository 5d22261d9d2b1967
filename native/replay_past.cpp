#include "replay_past.hpp"

#include <algorithm>

namespace paceline {
namespace {

// Calls with every column that the past itself fills, and with its value for a new op.
template <class Past, class Call>
void columns(Past& past, Call call) {
    for (auto* column : {&past.since, &past.ready, &past.end, &past.moved}) call(*column, Time{0});
    for (auto* column : {&past.start, &past.was_ready})
        if (!column->empty()) call(*column, Time{0});
    for (auto* column : {&past.previous, &past.rank, &past.order}) call(*column, kNone);
}

}  // namespace

Past::Past(const Editable& shape, std::span<const Time> d, std::span<const std::int32_t> p,
           Op interval)
    : dur(d.begin(), d.end()), priority(p.begin(), p.end()), interval(interval) {
    if (!shape.instance_of.empty()) was_ready.resize(1);
    if (!shape.instance_of.empty() || !shape.drained_lane.empty()) start.resize(1);
    columns(*this, [&](auto& column, auto value) { column.assign(dur.size(), value); });
}

void Past::add(Time d, std::int32_t p) {
    dur.push_back(d);
    priority.push_back(p);
    columns(*this, [](auto& column, auto value) { column.push_back(value); });
}

void Past::drop() {
    dur.pop_back();
    priority.pop_back();
    columns(*this, [](auto& column, auto) { column.pop_back(); });
}

void Past::reconcile(const Editable& shape, const Arrivals& ops, Op kept,
                     std::vector<Post>& later) {
    if (ops.came.empty() && ops.went.empty()) return;
    Op last = kNone;
    for (const Op op : ops.went) last = std::max(last, rank[op]);
    std::erase_if(later, [&](const Post& post) { return post.ended <= last; });
    for (Post& post : later)
        post.ended += static_cast<Op>(ops.came.size()) - static_cast<Op>(ops.went.size());

    const std::vector<Op> tail(order.begin() + kept, order.end());
    Op at = kept;
    const auto put = [&](Op op) {
        order[at] = op;
        rank[op] = at++;
    };
    for (const Op op : ops.went) rank[op] = kNone;
    for (const Op op : ops.came) put(op);
    for (const Op op : tail) {
        if (op == kNone || shape.gone[op]) continue;
        for (Op& before = previous[op]; before != kNone && shape.gone[before];)
            before = previous[before];
        put(op);
    }
    std::fill(order.begin() + at, order.end(), kNone);
}

std::size_t Past::bytes() const {
    std::size_t sum = dur.size() * 12 + drained.size() * 8;
    columns(*this, [&](const auto& column, auto value) { sum += column.size() * sizeof(value); });
    for (const Post& post : posts) sum += sizeof(post) + post.rates.bytes();
    return sum;
}

}  // namespace paceline
