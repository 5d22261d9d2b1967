// Exact incremental replay of graphs in recorded order: after an edit only what can change is
// revisited, in topological order, and propagation stops where an op ends as it did before.
//
// Links may be added and taken away and ops added (they stand last in the order). Links that run
// against the order are followed by going back; a link that closes a cycle is refused.
#pragma once

#include <memory>
#include <unordered_map>

#include "replay.hpp"

namespace paceline {

class Live {
  public:
    Live(std::shared_ptr<const Program>, std::span<const Time> dur);

    // New durations of some ops; they must not be negative. Returns how many ops were revisited.
    std::size_t resize(std::span<const Op> ops, std::span<const Time> dur);

    Op add(Time dur);                // a new op without links; its id counts on
    void drop();                     // the op added last, once it has no links
    bool link(Op before, Op op);     // false, and nothing done, where it would close a cycle
    void unlink(Op before, Op op);
    std::size_t settle();            // revisits what changed links ask for
    std::vector<Op> followers(Op op) const;

    Op ops() const { return static_cast<Op>(position_.size()); }  // added ones among them
    Time step() const;
    void times(Timeline& out) const;  // ready, start and end of each op
    std::size_t bytes() const;

  private:
    struct Rows {  // of an op whose links were changed
        std::vector<Op> preds, succs;
    };

    void mark(Op at) {
        const std::size_t word = static_cast<std::size_t>(at) >> 6;
        dirty_[word] |= 1ull << (at & 63);
        if (word < cursor_) cursor_ = word;
    }
    std::span<const Op> preds(Op at) const;
    std::span<const Op> succs(Op at) const;
    Rows& changed(Op at);
    bool reaches(Op from, Op to) const;
    Run run(Op at) const;  // the positions that start together with this one
    void finish(Op at, Time end);
    std::size_t revisit(Op at);
    Time arrival(Op at) const;

    std::shared_ptr<const Program> program_;
    std::vector<Op> position_;         // op -> position
    std::vector<Time> dur_, end_;      // by position
    Csr succs_;                        // by position
    std::vector<Op> run_of_;           // position -> index of its joined run; empty without runs
    std::vector<std::uint64_t> dirty_; // one bit a position
    std::size_t cursor_ = 0;           // no word before this is dirty
    std::unordered_map<Op, Rows> changed_;
    std::vector<std::uint8_t> is_changed_;  // by position; empty while no link was changed
};

}  // namespace paceline
