// Exact incremental replay of graphs that need events: PRIORITY lanes, drains, shared rates.
//
// Every change tells the first instant that may differ from the timeline as it stands; `settle`
// goes back to just before it and on from there (replay_rerun.hpp). Many changes may come before
// one `settle`: an instant is found from the timeline that still stands, and where an earlier
// change made that one wrong, it did so from its own instant on, which is then the smaller.
#pragma once

#include <memory>

#include "replay_rerun.hpp"

namespace paceline {

class LiveEvents {
  public:
    // `sharing` (its flows must be able to go back) is looked at as long as this lives.
    LiveEvents(const Program&, std::span<const Time> dur, std::span<const std::int32_t> priority,
               const Sharing* sharing);
    LiveEvents(const LiveEvents&) = delete;

    void resize(std::span<const Op> ops, std::span<const Time> dur);
    void prioritise(std::span<const Op> ops, std::span<const std::int32_t> priority);
    void link(Op before, Op op);    // they must not be linked
    void unlink(Op before, Op op);  // they must be linked
    Op add(Op lane, Op anchor, Time dur, std::uint8_t sort);  // `admit` lets it take part
    void drop() { ++dropping_; }  // the op added last, once withdrawn and without links
    void admit(Op op);
    void withdraw(Op op);      // once without followers
    bool settle();             // false where the replay is stuck

    std::span<const Op> deps(Op op) const { return shape_.preds.row(op); }
    std::span<const Op> followers(Op op) const { return shape_.succs.row(op); }
    Time step() const;                   // once settled, as all below
    std::size_t revisited() const { return revisited_; }  // ops replayed by the last settling
    const Past& past() const { return past_; }
    std::span<const Op> order() const {
        return std::span(past_.order).first(static_cast<std::size_t>(shape_.there));
    }
    std::size_t bytes() const;

  private:
    void changes(Time from) { change_.from = std::min(change_.from, from); }
    void rethink(Op op);
    Time ready_by_deps(Op op) const;
    Time freed(Op op) const;
    Time next_arrival(Op op) const;
    void partners_of(Op op);
    bool recorded(Op op) const { return shape_.discipline[shape_.lane_of[op]] == kRecorded; }
    void grow_sharing(std::uint8_t sort);
    void drop_now();

    Editable shape_;
    Past past_;
    Change change_;
    int dropping_ = 0;     // ops to be dropped once the past is settled
    bool broken_ = false;  // the last replay was stuck
    std::size_t revisited_ = 0;
    Sharing sharing_;
    std::vector<std::uint8_t> sort_, carried_;  // what `sharing_` looks at
    std::unique_ptr<Rerunner> rerunner_;
};

}  // namespace paceline
