#include "flows.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace paceline {

namespace {
constexpr double kNoRate = std::numeric_limits<double>::infinity();
constexpr double kBelow = 1 - 1e-9;  // further apart than rounding
}  // namespace

SharedLinks::SharedLinks(const FlowTable& table)
    : t_(table), state_(table.flows()), owner_(table.link.size()), on_(table.capacity.size()),
      place_(table.link.size()), after_(table.link.size()), left_rate_(kNoRate),
      link_seen_(table.capacity.size()), counted_(table.capacity.size()), flow_seen_(table.flows()),
      room_(table.capacity.size()), weights_(table.capacity.size()),
      open_(table.capacity.size()), members_(table.capacity.size()),
      settled_(table.flows()) {
    for (Op flow = 0; flow < static_cast<Op>(table.flows()); ++flow)
        for (auto i = table.link_ptr[flow]; i < table.link_ptr[flow + 1]; ++i) owner_[i] = flow;
}

void SharedLinks::begin(Op flow, Time now) {
    State& s = state_[flow];
    s.left = t_.size[flow];
    s.since = now;
    s.rate = 0;
    if (t_.link_ptr[flow] == t_.link_ptr[flow + 1] || s.left <= 0) {
        s.end = now + t_.tail[flow];
        due_.push({s.end, flow, false});
        return;
    }
    s.sending = true;
    s.end = kNever;
    for (auto i = t_.link_ptr[flow]; i < t_.link_ptr[flow + 1]; ++i) {
        auto& on = on_[t_.link[i]];
        place_[i] = static_cast<std::int64_t>(on.size());
        on.push_back(i);
    }
    touch(flow);
    any_began_ = true;
}

void SharedLinks::leave(Op flow) {
    for (auto i = t_.link_ptr[flow]; i < t_.link_ptr[flow + 1]; ++i) {
        auto& on = on_[t_.link[i]];
        const Slot moved = on.back();
        on[place_[i]] = moved;
        place_[moved] = place_[i];
        on.pop_back();
    }
    touch(flow);
}

void SharedLinks::touch(Op flow) {
    for (auto i = t_.link_ptr[flow]; i < t_.link_ptr[flow + 1]; ++i)
        touched_.push_back(t_.link[i]);
}

bool SharedLinks::stale(const Due& due) const {
    return state_[due.flow].end != due.at || state_[due.flow].sending != due.drained;
}

Time SharedLinks::next() {
    while (!due_.empty() && stale(due_.top())) due_.pop();
    return due_.empty() ? kNever : due_.top().at;
}

void SharedLinks::take_ended(Time now, std::vector<Op>& ended) {
    const auto first = ended.size();
    while (next() == now) {
        const Due due = due_.top();
        due_.pop();
        State& s = state_[due.flow];
        if (due.drained) {
            s.sending = false;
            left_rate_ = std::min(left_rate_, s.rate);
            leave(due.flow);
            s.end = now + t_.tail[due.flow];
            if (t_.tail[due.flow] > 0) {
                due_.push({s.end, due.flow, false});
                continue;
            }
        }
        s.end = kNever;
        ended.push_back(due.flow);
    }
    std::sort(ended.begin() + static_cast<std::ptrdiff_t>(first), ended.end());
}

void SharedLinks::settle(Time now) {
    if (touched_.empty()) return;
    std::sort(touched_.begin(), touched_.end());
    touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
    find_floor();
    for (const Op link : touched_) count_again(link);
    for (const Op link : touched_) {
        if (link_seen_[link] || on_[link].empty()) continue;
        gather(link);
        share(now);
        for (const Op flow : flows_) flow_seen_[flow] = 0;
        shared_.insert(shared_.end(), links_.begin(), links_.end());
    }
    for (const Op link : shared_) link_seen_[link] = 0;
    shared_.clear();
    touched_.clear();
    left_rate_ = kNoRate;
    any_began_ = false;
}

// The rate below which nothing can have changed: flows that ended had it or more, and links with
// flows that began are full at it or above.
void SharedLinks::find_floor() {
    floor_ = left_rate_;
    if (any_began_)
        for (const Op link : touched_) floor_ = std::min(floor_, joining_level(link));
    floor_ *= kBelow;
}

// The rate at which a link is full when flows that began rise with the others.
double SharedLinks::joining_level(Op link) {
    rates_.clear();
    double open = 0, room = t_.capacity[link];
    for (const Slot i : on_[link]) {
        const double rate = state_[owner_[i]].rate;
        if (rate > 0) {
            rates_.emplace_back(rate, t_.weight[i]);
            room -= rate * t_.weight[i];
        } else {
            open += t_.weight[i];
        }
    }
    if (open == 0) return kNoRate;
    std::make_heap(rates_.begin(), rates_.end());
    while (!rates_.empty() && room < rates_.front().first * open) {
        const auto [rate, weight] = rates_.front();
        std::pop_heap(rates_.begin(), rates_.end());
        rates_.pop_back();
        room += rate * weight;
        open += weight;
    }
    return std::max(room, 0.0) / open;
}

// The flows on a link are others now: so is what those that keep their rates leave of its weights.
void SharedLinks::count_again(Op link) {
    const auto keeps = [&](Slot i) { return kept(owner_[i]); };
    if (std::none_of(on_[link].begin(), on_[link].end(), keeps)) return;
    slots_.assign(on_[link].begin(), on_[link].end());
    std::sort(slots_.begin(), slots_.end());
    double weights = 0;
    for (const Slot i : slots_) weights += t_.weight[i];
    std::erase_if(slots_, std::not_fn(keeps));
    std::sort(slots_.begin(), slots_.end(), [&](Slot a, Slot b) {
        return state_[owner_[a]].turn < state_[owner_[b]].turn;
    });
    for (const Slot i : slots_) after_[i].weights = weights -= t_.weight[i];
}

// All links and flows that hang together with `link`, ascending, without flows that keep their
// rates; each link begins with what the last of those left of it.
void SharedLinks::gather(Op link) {
    links_.assign(1, link);
    flows_.clear();
    link_seen_[link] = 1;
    for (std::size_t i = 0; i < links_.size(); ++i) {
        const Op here = links_[i];
        Slot last = -1;
        std::int64_t turn = 0;
        for (const Slot slot : on_[here]) {
            const Op flow = owner_[slot];
            if (kept(flow)) {
                if (state_[flow].turn > turn) turn = state_[flow].turn, last = slot;
                continue;
            }
            if (flow_seen_[flow]) continue;
            flow_seen_[flow] = 1;
            flows_.push_back(flow);
            for (auto j = t_.link_ptr[flow]; j < t_.link_ptr[flow + 1]; ++j) {
                const Op next = t_.link[j];
                if (link_seen_[next]) continue;
                link_seen_[next] = 1;
                links_.push_back(next);
            }
        }
        counted_[here] = last >= 0;
        room_[here] = last < 0 ? t_.capacity[here] : after_[last].room;
        weights_[here] = last < 0 ? 0 : after_[last].weights;
        open_[here] = 0;
        members_[here].clear();
    }
    std::sort(flows_.begin(), flows_.end());
}

void SharedLinks::share(Time now) {
    for (const Op flow : flows_) {
        settled_[flow] = 0;
        for (auto i = t_.link_ptr[flow]; i < t_.link_ptr[flow + 1]; ++i) {
            if (!counted_[t_.link[i]]) weights_[t_.link[i]] += t_.weight[i];
            ++open_[t_.link[i]];
            members_[t_.link[i]].push_back(flow);
        }
    }
    // Levels only rise while flows are settled: what lies in the heap is a lower bound.
    levels_.clear();
    for (const Op link : links_)
        if (open_[link]) levels_.emplace_back(level(link), link);
    std::make_heap(levels_.begin(), levels_.end(), std::greater<>());
    for (std::size_t left = flows_.size(); left > 0;) {
        std::pop_heap(levels_.begin(), levels_.end(), std::greater<>());
        const auto [bound, full] = levels_.back();
        levels_.pop_back();
        if (open_[full] == 0) continue;
        const double least = level(full);
        if (least > bound) {
            levels_.emplace_back(least, full);
            std::push_heap(levels_.begin(), levels_.end(), std::greater<>());
            continue;
        }
        for (const Op flow : members_[full]) {
            if (settled_[flow]) continue;
            settled_[flow] = 1;
            --left;
            state_[flow].turn = ++turn_;
            set_rate(flow, least, now);
            for (auto i = t_.link_ptr[flow]; i < t_.link_ptr[flow + 1]; ++i) {
                const Op link = t_.link[i];
                room_[link] -= least * t_.weight[i];
                weights_[link] -= t_.weight[i];
                --open_[link];
                after_[i] = {room_[link], weights_[link]};
            }
        }
    }
}

double SharedLinks::level(Op link) const {
    return std::max(room_[link], 0.0) / weights_[link];
}

void SharedLinks::set_rate(Op flow, double rate, Time now) {
    State& s = state_[flow];
    if (rate == s.rate && s.end != kNever) return;
    s.left = std::max(0.0, s.left - s.rate * (static_cast<double>(now - s.since) * 1e-9));
    s.since = now;
    s.rate = rate;
    s.end = now + static_cast<Time>(std::ceil(s.left / rate * 1e9));
    due_.push({s.end, flow, true});
}

std::int64_t simulate(const FlowTable& table, const Dag& dag, std::span<Time> start,
                      std::span<Time> end) {
    const auto count = static_cast<Op>(table.flows());
    std::vector<Op> waits(count), owner;
    for (Op op = 0; op < count; ++op)
        waits[op] = static_cast<Op>(dag.dep_ptr[op + 1] - dag.dep_ptr[op]);
    owner.reserve(dag.dep_src.size());
    for (Op op = 0; op < count; ++op) owner.insert(owner.end(), waits[op], op);
    const Csr after = group_by(count, dag.dep_src, owner);

    SharedLinks links(table);
    using Release = std::pair<Time, Op>;
    std::priority_queue<Release, std::vector<Release>, std::greater<>> later;
    std::vector<Time> ready(dag.release.begin(), dag.release.end());
    for (Op op = 0; op < count; ++op)
        if (waits[op] == 0) later.push({ready[op], op});
    std::vector<Op> ended;
    std::int64_t events = 0;
    for (;;) {
        const Time now = std::min(links.next(), later.empty() ? kNever : later.top().first);
        if (now == kNever) return events;
        ended.clear();
        if (links.next() == now) links.take_ended(now, ended);
        for (const Op op : ended) {
            end[op] = now;
            ++events;
            for (const Op next : after.row(op)) {
                ready[next] = std::max(ready[next], now);
                if (--waits[next] == 0) later.push({ready[next], next});
            }
        }
        while (!later.empty() && later.top().first == now) {
            const Op op = later.top().second;
            later.pop();
            start[op] = now;
            ++events;
            links.begin(op, now);
        }
        links.settle(now);
    }
}

CarriedFlows::CarriedFlows(FlowTable table, std::vector<Op> flow_of_op)
    : table_(std::move(table)), links_(table_), flow_of_op_(std::move(flow_of_op)),
      members_(table_.flows()) {}

void CarriedFlows::begin(Op op, Time now) {
    const Op flow = flow_of_op_[op];
    if (members_[flow].empty()) links_.begin(flow, now);
    members_[flow].push_back(op);
}

void CarriedFlows::take_ended(Time now, std::vector<Op>& ended) {
    flows_.clear();
    links_.take_ended(now, flows_);
    const auto first = static_cast<std::ptrdiff_t>(ended.size());
    for (const Op flow : flows_) {
        ended.insert(ended.end(), members_[flow].begin(), members_[flow].end());
        members_[flow].clear();
    }
    std::sort(ended.begin() + first, ended.end());
}

}  // namespace paceline
