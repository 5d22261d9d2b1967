// Compiling a graph's structure: topological order (or a cycle), successors, queues.
#include <algorithm>
#include <numeric>
#include <utility>

#include "replay.hpp"

namespace paceline {
namespace {

template <class Vector>
std::size_t size_of(const Vector& v) {
    return v.size() * sizeof(v[0]);
}

// Successors of each op over the dependency arrays, optionally of one kind only.
Csr successors(const Structure& g, Op count, int only_kind = -1) {
    Csr out;
    out.ptr.assign(count + 2, 0);  // while rows are filled, ptr[i + 1] is where the next item goes
    const std::size_t edges = g.dep_src.size();
    for (std::size_t e = 0; e < edges; ++e)
        if (only_kind < 0 || g.dep_kind[e] == only_kind) ++out.ptr[g.dep_src[e] + 2];
    std::partial_sum(out.ptr.begin(), out.ptr.end(), out.ptr.begin());
    out.item.resize(out.ptr[count + 1]);
    for (Op op = 0; op < count; ++op)
        for (auto e = g.dep_ptr[op]; e < g.dep_ptr[op + 1]; ++e)
            if (only_kind < 0 || g.dep_kind[e] == only_kind)
                out.item[out.ptr[g.dep_src[e] + 1]++] = op;
    out.ptr.pop_back();
    return out;
}

Csr instance_members(const Structure& g, Op count) {
    std::vector<Op> keys, ops;
    Op highest = kNone;
    for (Op op = 0; op < count; ++op)
        if (g.instance[op] != kNone) {
            keys.push_back(g.instance[op]);
            ops.push_back(op);
            highest = std::max(highest, g.instance[op]);
        }
    return group_by(highest + 1, keys, ops);
}

Flat<Op> next_on_lane(const Structure& g, Op count) {  // on RECORDED lanes
    Flat<Op> next(count, kNone);
    std::vector<Op> last(g.discipline.size(), kNone);
    for (Op op = 0; op < count; ++op)
        if (const Op lane = g.lane[op]; g.discipline[lane] == kRecorded)
            if (const Op before = std::exchange(last[lane], op); before != kNone) next[before] = op;
    return next;
}

// Kahn's order over ops, those of one instance as one node; short on a cycle. Of what waits for an
// op, the next on its lane comes first: so a rank's ops stand together, as they do in memory.
Flat<Op> topological(const Structure& g, const Csr& succs, const Csr& members) {
    const Op count = static_cast<Op>(g.lane.size());
    const auto head = [&](Op op) {  // the op that stands for its instance
        return g.instance[op] == kNone ? op : members.row(g.instance[op])[0];
    };
    const Flat<Op> next = next_on_lane(g, count);
    Flat<Op> missing(count, 0);
    for (Op op = 0; op < count; ++op) {
        missing[head(op)] += static_cast<Op>(g.dep_ptr[op + 1] - g.dep_ptr[op]);
        if (next[op] != kNone) ++missing[head(next[op])];
    }
    std::vector<Op> ready;  // the last is the next to be taken
    for (Op op = count; op-- > 0;)
        if (missing[op] == 0 && head(op) == op) ready.push_back(op);
    const auto release = [&](Op op) {
        if (const Op h = head(op); --missing[h] == 0) ready.push_back(h);
    };
    Flat<Op> order;
    order.reserve(count);
    const auto take = [&](Op op) {
        order.push_back(op);
        for (const Op after : succs.row(op)) release(after);
        if (next[op] != kNone) release(next[op]);
    };
    while (!ready.empty()) {
        const Op op = ready.back();
        ready.pop_back();
        if (g.instance[op] == kNone)
            take(op);
        else
            for (const Op member : members.row(g.instance[op])) take(member);
    }
    return order;
}

// Follow what unordered ops wait for until one comes again; members of an instance count as one.
std::vector<Op> find_cycle(const Structure& g, const Csr& members, const Flat<Op>& order) {
    const Op count = static_cast<Op>(g.lane.size());
    Flat<Op> previous(count);
    previous_on_lane(g.lane, g.discipline, previous);
    std::vector<std::uint8_t> done(count);
    for (const Op op : order) done[op] = 1;
    const auto waits_on = [&](Op op) -> Op {  // an unordered predecessor of op itself
        for (auto e = g.dep_ptr[op]; e < g.dep_ptr[op + 1]; ++e)
            if (!done[g.dep_src[e]]) return g.dep_src[e];
        const Op before = previous[op];
        return before != kNone && !done[before] ? before : kNone;
    };
    std::vector<Op> path;
    std::vector<Op> seen(count, kNone);
    Op op = static_cast<Op>(std::find(done.begin(), done.end(), 0) - done.begin());
    for (;;) {
        const Op stands = g.instance[op] == kNone ? op : members.row(g.instance[op])[0];
        if (seen[stands] != kNone) {
            path.erase(path.begin(), path.begin() + seen[stands]);
            break;
        }
        seen[stands] = static_cast<Op>(path.size());
        path.push_back(op);
        Op before = waits_on(op);
        if (before == kNone)  // another member of its instance is the one that waits
            for (const Op member : members.row(g.instance[op]))
                if (const Op found = waits_on(member); found != kNone) {
                    path.push_back(member);
                    before = found;
                    break;
                }
        op = before;
    }
    std::reverse(path.begin(), path.end());
    return path;
}

void prepare_pull(Program& p, const Structure& g, const Csr& members, Flat<Op> order) {
    Flat<Op> position(p.ops);
    for (Op at = 0; at < p.ops; ++at) position[order[at]] = at;
    std::vector<Op> last(g.discipline.size(), kNone);  // lane -> its last op before this position
    p.preds.ptr.resize(p.ops + 1);
    p.lane_first.resize(p.ops);
    p.preds.item.reserve(p.edges + p.ops);
    for (Op at = 0; at < p.ops; ++at) {
        const Op op = order[at];
        p.preds.ptr[at] = static_cast<std::uint32_t>(p.preds.item.size());
        const auto deps = g.dep_src.subspan(g.dep_ptr[op], g.dep_ptr[op + 1] - g.dep_ptr[op]);
        const Op before = std::exchange(last[g.lane[op]], op);
        if (before != kNone && std::find(deps.begin(), deps.end(), before) == deps.end()) {
            p.lane_first[at] = true;
            p.preds.item.push_back(position[before]);
        }
        for (const Op dep : deps) p.preds.item.push_back(position[dep]);
        if (const Op i = g.instance[op]; i != kNone && members.row(i)[0] == op)
            if (const Op size = static_cast<Op>(members.row(i).size()); size > 1)
                p.joined.push_back({at, at + size});
    }
    p.preds.ptr[p.ops] = static_cast<std::uint32_t>(p.preds.item.size());
    p.order = std::move(order);
}

void prepare_events(Program& p, const Structure& g, Csr succs, Csr members) {
    p.succs = std::move(succs);
    p.waits_for.resize(p.ops);
    for (Op op = 0; op < p.ops; ++op)
        p.waits_for[op] = static_cast<Op>(g.dep_ptr[op + 1] - g.dep_ptr[op]);
    p.lane_of.assign(g.lane.begin(), g.lane.end());
    if (!members.item.empty()) p.instance_of.assign(g.instance.begin(), g.instance.end());
    p.members = std::move(members);
    p.discipline.assign(g.discipline.begin(), g.discipline.end());
    std::vector<Op> lanes, ops;
    for (Op op = 0; op < p.ops; ++op)
        if (g.discipline[g.lane[op]] == kRecorded) {
            lanes.push_back(g.lane[op]);
            ops.push_back(op);
        }
    p.queue = group_by(g.discipline.size(), lanes, ops);
    if (g.drain_op.empty()) return;
    p.drains = group_by(p.ops, g.drain_op, g.drain_lane);
    p.launches = successors(g, p.ops, kLaunch);
    p.waits_for_launch.assign(p.ops, 0);
    for (const Op launched : p.launches.item) ++p.waits_for_launch[launched];
    p.drained_lane.assign(g.discipline.size(), 0);
    for (const Op lane : g.drain_lane) p.drained_lane[lane] = 1;
}

}  // namespace

void previous_on_lane(std::span<const Op> lane, std::span<const std::uint8_t> discipline,
                      std::span<Op> out) {
    std::vector<Op> last(discipline.size(), kNone);
    for (std::size_t op = 0; op < lane.size(); ++op)
        out[op] = discipline[lane[op]] == kRecorded
                      ? std::exchange(last[lane[op]], static_cast<Op>(op))
                      : kNone;
}

Csr group_by(std::size_t rows, std::span<const Op> keys, std::span<const Op> values) {
    Csr out;
    out.ptr.assign(rows + 1, 0);
    for (const Op key : keys) ++out.ptr[key + 1];
    std::partial_sum(out.ptr.begin(), out.ptr.end(), out.ptr.begin());
    out.item.resize(values.size());
    Flat<std::uint32_t> at(out.ptr.begin(), out.ptr.end() - 1);
    for (std::size_t i = 0; i < values.size(); ++i) out.item[at[keys[i]]++] = values[i];
    return out;
}

Csr reversed(const Csr& rows) {
    Flat<Op> owner(rows.item.size());
    for (std::size_t i = 0; i < rows.rows(); ++i)
        std::fill(owner.begin() + rows.begin(i), owner.begin() + rows.end(i), static_cast<Op>(i));
    return group_by(rows.rows(), rows.item, owner);
}

Program compile(const Structure& g, bool events) {
    Program p;
    p.ops = static_cast<Op>(g.lane.size());
    p.edges = g.dep_src.size();
    const bool queued = std::all_of(g.discipline.begin(), g.discipline.end(),
                                    [](auto d) { return d == kRecorded; });
    p.by_pull = queued && g.drain_op.empty() && !events;
    Csr succs = successors(g, p.ops);
    Csr members = instance_members(g, p.ops);
    Flat<Op> order = topological(g, succs, members);
    if (p.by_pull) succs = {};  // its memory serves what follows
    if (static_cast<Op>(order.size()) < p.ops)
        p.cycle = find_cycle(g, members, order);
    else if (p.by_pull)
        prepare_pull(p, g, members, std::move(order));
    else
        prepare_events(p, g, std::move(succs), std::move(members));
    return p;
}

std::size_t Program::bytes() const {
    return size_of(order) + lane_first.size() / 8 + preds.bytes() + size_of(joined) + succs.bytes() + size_of(waits_for) +
           size_of(lane_of) + size_of(instance_of) + members.bytes() + queue.bytes() +
           discipline.size() + drains.bytes() + launches.bytes() + size_of(waits_for_launch) +
           drained_lane.size();
}

}  // namespace paceline
