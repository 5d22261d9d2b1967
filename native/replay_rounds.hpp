// The rules of a replay in rounds of events, as reference.py tells them, and nothing else: what a
// replay remembers of itself is up to `Self`, whose hooks stand at the end of this comment.
//
// `P` is a Program, or an Editable, which has the same names. `Self` derives from Rounds and gives
//   Time dur(Op), int32_t priority(Op)
//   uint32_t key(Op), Op by_key(uint32_t)   the place of an op in id order, for ties
//   void foresee(Op)                        it may be ready once an op that has begun ends
//   void became_ready(Op, Time)
//   void arrived(Op, Time, Op previous)     on its lane, where `previous` was the one before
//   void started(Op, Time), ended(Op, Time), held(Op, Op other)
//   bool over(Time)                         an instant is over; true stops the replay
#pragma once

#include <algorithm>
#include <queue>

#include "replay.hpp"
#include "replay_agenda.hpp"
#include "replay_sharing.hpp"

namespace paceline {

// (priority, since, key) as one number that compares as they do in turn: without branches.
using Waiting = unsigned __int128;

inline Waiting waiting(std::int32_t priority, Time since, std::uint32_t key) {
    const auto biased = static_cast<std::uint32_t>(priority) ^ 0x80000000u;
    return static_cast<Waiting>(biased) << 96 | static_cast<Waiting>(since) << 32 | key;
}

inline std::uint32_t key_of(Waiting entry) { return static_cast<std::uint32_t>(entry); }

struct WaitingOps : std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> {
    const std::vector<Waiting>& entries() const { return c; }
    void clear() { c.clear(); }
};

struct Lane {
    Op running = kNone;  // it has arrived and not ended
    Op last = kNone;
    bool recorded = true, touched = false;
    bool listed = false;  // PRIORITY and drained: what it was given is kept in `given_`
    std::uint32_t cursor = 0, stop = 0;  // of a RECORDED lane, in the queue
    WaitingOps waiting;                  // PRIORITY
};

template <class P>
class FixedRates {  // every op takes its own time
  public:
    FixedRates(const P& p, const Sharing*, Agenda& agenda) : p_(p), agenda_(agenda) {}

    void begin(Op op, Time now, Time dur) { agenda_.set(p_.lane_of[op], now + dur); }
    void settle(Time) {}
    Time next_carried() const { return kNever; }
    void take_ended(Time, std::vector<Op>&) {}

  private:
    const P& p_;
    Agenda& agenda_;
};

// `R` says how long ops take once begun: FixedRates, Rates or CoreRates.
template <class Self, class P, class R>
class Rounds {
  protected:
    Rounds(const P& p, const Sharing* sharing)
        : p_(p), lanes_(p.discipline.size()), agenda_(lanes_.size()),
          draining_(!p.drained_lane.empty()), rates_(p, sharing, agenda_) {
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            lanes_[i].recorded = p.discipline[i] == kRecorded;
            lanes_[i].cursor = p.queue.begin(i);
            lanes_[i].stop = p.queue.end(i);
            lanes_[i].listed = draining_ && p.drained_lane[i] && !lanes_[i].recorded;
        }
        absent_.resize(p.members.rows());
        if (draining_) given_.resize(lanes_.size());
    }

    void begin_at_zero() {  // `missing_`, and for drains `unlaunched_`, are set by now
        for (std::size_t i = 0; i < absent_.size(); ++i)
            absent_[i] = static_cast<Op>(p_.members.row(i).size());
        if (draining_) {
            held_.assign(p_.ops, 0);
            holds_.assign(p_.ops, {});
            ended_.assign(p_.ops, 0);
        }
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane) touch(static_cast<Op>(lane));
        for (Op op = 0; op < p_.ops; ++op)
            if (missing_[op] == 0) becomes_ready(op, p_.lane_of[op], 0);
        lanes_take(0);
    }

    void go_on(Time now) {  // from the end of an instant
        for (Time next;; now = next) {
            next = next_end();
            if (next != now && self().over(now)) return;
            if (next == kNever) return;
            take_ended(next);
            for (const Op op : batch_) end(op, next);
            lanes_take(next);
        }
    }

    void begin(Op op, Time now) {
        self().started(op, now);
        rates_.begin(op, now, self().dur(op));
        for (const Op next : p_.succs.row(op)) {  // fetch early what its end looks at
            __builtin_prefetch(&missing_[next], 1);
            __builtin_prefetch(&p_.lane_of[next]);
            self().foresee(next);
        }
    }

    Op instance(Op op) const { return p_.instance_of.empty() ? kNone : p_.instance_of[op]; }
    bool drains(Op op) const { return draining_ && !p_.drains.row(op).empty(); }

    const P& p_;
    std::vector<Lane> lanes_;
    std::vector<Op> missing_, absent_;
    Agenda agenda_;
    Op finished_ = 0;

    bool draining_;
    std::vector<Op> unlaunched_, held_;
    std::vector<std::vector<Op>> given_, holds_;
    std::vector<std::uint8_t> ended_;
    R rates_;

  private:
    Self& self() { return static_cast<Self&>(*this); }

    Time next_end() {
        return std::min(agenda_.next(), rates_.next_carried());
    }

    void take_ended(Time now) {
        batch_.clear();
        while (agenda_.next() == now) {
            const std::size_t lane = agenda_.first();
            batch_.push_back(lanes_[lane].running);
            agenda_.set(lane, kNever);
        }
        rates_.take_ended(now, batch_);
        if (batch_.size() > 1)
            std::sort(batch_.begin(), batch_.end(),
                      [&](Op a, Op b) { return self().key(a) < self().key(b); });
    }

    void touch(Op lane) {
        if (lanes_[lane].touched) return;
        lanes_[lane].touched = true;
        touched_.push_back(lane);
    }

    void becomes_ready(Op op, Op lane, Time now) {
        self().became_ready(op, now);
        if (!lanes_[lane].recorded)
            lanes_[lane].waiting.push(waiting(self().priority(op), now, self().key(op)));
        touch(lane);
    }

    void end(Op op, Time now) {
        self().ended(op, now);
        ++finished_;
        const Op lane = p_.lane_of[op];
        lanes_[lane].running = kNone;
        touch(lane);
        for (const Op next : p_.succs.row(op))
            if (--missing_[next] == 0) becomes_ready(next, p_.lane_of[next], now);
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
            if (drains(op)) continue;
            const Op joined = instance(op);
            if (joined == kNone) {
                begin(op, now);
            } else if (--absent_[joined] == 0) {
                for (const Op member : p_.members.row(joined)) begin(member, now);
            }
        }
        if (draining_)  // after all have arrived: what a lane has been given is then settled
            for (const Op op : arrived_)
                if (drains(op)) drain(op, now);
        rates_.settle(now);
    }

    Op take(Op id, Time now) {
        Lane& lane = lanes_[id];
        if (lane.running != kNone) return kNone;
        Op op;
        if (lane.recorded) {
            if (lane.cursor == lane.stop || missing_[p_.queue.item[lane.cursor]] != 0)
                return kNone;
            op = p_.queue.item[lane.cursor++];
        } else {
            if (lane.waiting.empty()) return kNone;
            op = self().by_key(key_of(lane.waiting.top()));
            lane.waiting.pop();
        }
        self().arrived(op, now, lane.last);
        lane.running = lane.last = op;
        if (lane.listed && p_.waits_for_launch[op] == 0) given_[id].push_back(op);
        return op;
    }

    void drain(Op op, Time now) {
        for (const Op lane : p_.drains.row(op))
            if (lanes_[lane].recorded)
                wait_for_queue(op, lanes_[lane]);
            else
                wait_for_listed(op, given_[lane]);
        if (held_[op] == 0) begin(op, now);
    }

    // What was launched ahead of an op that stands before it is not given to the lane yet.
    void wait_for_queue(Op op, const Lane& lane) {
        if (lane.running != kNone) wait_for(op, lane.running);
        for (std::uint32_t at = lane.cursor; at != lane.stop; ++at) {
            const Op other = p_.queue.item[at];
            if (p_.waits_for_launch[other] == 0) continue;
            if (unlaunched_[other] != 0) return;
            wait_for(op, other);
        }
    }

    void wait_for_listed(Op op, std::vector<Op>& given) {
        std::erase_if(given, [&](Op other) { return ended_[other]; });
        for (const Op other : given) wait_for(op, other);
    }

    void wait_for(Op op, Op other) {
        ++held_[op];
        holds_[other].push_back(op);
        self().held(op, other);
    }

    void end_for_drains(Op op, Time now) {
        ended_[op] = 1;
        for (const Op launched : p_.launches.row(op))
            if (--unlaunched_[launched] == 0 && lanes_[p_.lane_of[launched]].listed)
                given_[p_.lane_of[launched]].push_back(launched);
        for (const Op waiter : holds_[op])
            if (--held_[waiter] == 0) begin(waiter, now);
        holds_[op] = {};
    }

    std::vector<Op> touched_, batch_, arrived_;
};

}  // namespace paceline
