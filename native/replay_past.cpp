#include "replay_past.hpp"

#include <algorithm>

namespace paceline {
namespace {

// Calls with every column of which an op has one entry, and with its value for a new op.
template <class Past, class Call>
void columns(Past& past, Call call) {
    for (auto* column : {&past.since, &past.ready, &past.start, &past.end}) call(*column, Time{-1});
    for (auto* column : {&past.previous, &past.arrived, &past.rank, &past.was_arrived, &past.order})
        call(*column, kNone);
    call(past.moved, Time{0});
}

}  // namespace

Past::Past(std::span<const Time> d, std::span<const std::int32_t> p, Op interval)
    : dur(d.begin(), d.end()), priority(p.begin(), p.end()), interval(interval) {
    columns(*this, [&](auto& column, auto value) { column.assign(d.size(), value); });
}

void Past::add(Time d, std::int32_t p) {
    dur.push_back(d);
    priority.push_back(p);
    columns(*this, [](auto& column, auto value) { column.push_back(value); });
}

void Past::drop() {
    const Op op = static_cast<Op>(dur.size()) - 1;
    std::replace(previous.begin(), previous.end(), op, previous[op]);
    std::erase(order, op);
    order.resize(dur.size(), kNone);  // the last is taken off below
    dur.pop_back();
    priority.pop_back();
    columns(*this, [](auto& column, auto) { column.pop_back(); });
}

Timeline& Past::view() {
    columns_.ready = ready;
    columns_.start = start;
    columns_.end = end;
    columns_.previous = previous;
    columns_.order = order;
    return columns_;
}

std::size_t Past::bytes() const {
    std::size_t sum = (dur.size() + columns_.drained.size()) * 8 + priority.size() * 4;
    columns(*this, [&](const auto& column, auto value) { sum += column.size() * sizeof(value); });
    for (const Post& post : posts) sum += sizeof(post) + post.rates.bytes();
    return sum;
}

}  // namespace paceline
