// Graphs with PRIORITY lanes or drains: rounds of events, exactly as reference.py tells them.
#include <algorithm>
#include <queue>

#include "replay.hpp"

namespace paceline {
namespace {

struct Event {
    Time end;
    Op op;
    bool operator>(const Event& o) const { return end != o.end ? end > o.end : op > o.op; }
};

struct Waiting {
    std::int32_t priority;
    Op op;
    Time since;
    bool operator>(const Waiting& o) const {
        if (priority != o.priority) return priority > o.priority;
        return since != o.since ? since > o.since : op > o.op;
    }
};

template <class T>
using Least = std::priority_queue<T, std::vector<T>, std::greater<>>;

struct Lane {
    bool free = true, touched = false;
    Op last = kNone;
    std::uint32_t cursor = 0;  // of a RECORDED lane
    Least<Waiting> waiting;    // of a PRIORITY lane
};

class Engine {
  public:
    Engine(const Program& p, const Time* dur, const std::int32_t* priority, Timeline& out)
        : p_(p), dur_(dur), priority_(priority), out_(out), lanes_(p.discipline.size()),
          missing_(p.waits_for), draining_(!p.drained_lane.empty()) {
        absent_.resize(p.members.ptr.empty() ? 0 : p.members.ptr.size() - 1);
        for (std::size_t i = 0; i < absent_.size(); ++i)
            absent_[i] = static_cast<Op>(p.members.row(i).size());
        if (!draining_) return;
        unlaunched_ = p.waits_for_launch;
        given_.resize(lanes_.size());
        held_.assign(p.ops, 0);
        holds_.resize(p.ops);
        ended_.assign(p.ops, 0);
    }

    Op run() {
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane) touch(static_cast<Op>(lane));
        for (Op op = 0; op < p_.ops; ++op)
            if (missing_[op] == 0) becomes_ready(op, 0);
        lanes_take(0);
        while (!events_.empty()) {
            const Time now = events_.top().end;
            batch_.clear();
            while (!events_.empty() && events_.top().end == now) {
                batch_.push_back(events_.top().op);
                events_.pop();
            }
            for (const Op op : batch_) end(op, now);
            lanes_take(now);
        }
        return finished_;
    }

  private:
    void touch(Op lane) {
        if (lanes_[lane].touched) return;
        lanes_[lane].touched = true;
        touched_.push_back(lane);
    }

    void becomes_ready(Op op, Time now) {
        const Op lane = p_.lane_of[op];
        if (p_.discipline[lane] != kRecorded)
            lanes_[lane].waiting.push({priority_[op], op, now});
        touch(lane);
    }

    void end(Op op, Time now) {
        out_.end[op] = now;
        out_.order[finished_++] = op;
        const Op lane = p_.lane_of[op];
        lanes_[lane].free = true;
        touch(lane);
        for (const Op next : p_.succs.row(op))
            if (--missing_[next] == 0) becomes_ready(next, now);
        if (draining_) end_for_drains(op, now);
    }

    void lanes_take(Time now) {
        arrived_.clear();
        for (const Op lane : touched_) {
            lanes_[lane].touched = false;
            if (const Op op = take(lane, now); op != kNone) arrived_.push_back(op);
        }
        touched_.clear();
        for (const Op op : arrived_) {
            const Op instance = p_.instance_of.empty() ? kNone : p_.instance_of[op];
            if (draining_ && !p_.drains.row(op).empty()) continue;
            if (instance == kNone) {
                begin(op, now);
            } else if (--absent_[instance] == 0) {
                for (const Op member : p_.members.row(instance)) begin(member, now);
            }
        }
        if (!draining_) return;
        for (const Op op : arrived_)
            if (!p_.drains.row(op).empty()) drain(op, now);
    }

    Op take(Op id, Time now) {
        Lane& lane = lanes_[id];
        if (!lane.free) return kNone;
        Op op;
        if (p_.discipline[id] == kRecorded) {
            const auto queue = p_.queue.row(id);
            if (lane.cursor == queue.size() || missing_[queue[lane.cursor]] != 0) return kNone;
            op = queue[lane.cursor++];
        } else {
            if (lane.waiting.empty()) return kNone;
            op = lane.waiting.top().op;
            lane.waiting.pop();
        }
        out_.ready[op] = now;
        out_.previous[op] = lane.last;
        lane.free = false;
        lane.last = op;
        if (draining_ && p_.drained_lane[id] && p_.waits_for_launch[op] == 0)
            given_[id].push_back(op);
        return op;
    }

    void begin(Op op, Time now) {
        out_.start[op] = now;
        events_.push({now + dur_[op], op});
    }

    void drain(Op op, Time now) {
        for (const Op lane : p_.drains.row(op)) {
            auto& given = given_[lane];
            std::erase_if(given, [&](Op other) { return ended_[other]; });
            for (const Op other : given) {
                ++held_[op];
                holds_[other].push_back(op);
                out_.drained.emplace_back(op, other);
            }
        }
        if (held_[op] == 0) begin(op, now);
    }

    void end_for_drains(Op op, Time now) {
        ended_[op] = 1;
        for (const Op launched : p_.launches.row(op))
            if (--unlaunched_[launched] == 0 && p_.drained_lane[p_.lane_of[launched]])
                given_[p_.lane_of[launched]].push_back(launched);
        for (const Op waiter : holds_[op])
            if (--held_[waiter] == 0) begin(waiter, now);
        holds_[op] = {};
    }

    const Program& p_;
    const Time* dur_;
    const std::int32_t* priority_;
    Timeline& out_;
    std::vector<Lane> lanes_;
    std::vector<Op> missing_, absent_, touched_, batch_, arrived_;
    Least<Event> events_;
    Op finished_ = 0;

    bool draining_;
    std::vector<Op> unlaunched_, held_;
    std::vector<std::vector<Op>> given_, holds_;
    std::vector<std::uint8_t> ended_;
};

}  // namespace

Op run_events(const Program& p, const Time* dur, const std::int32_t* priority, Timeline& out) {
    return Engine(p, dur, priority, out).run();
}

}  // namespace paceline
