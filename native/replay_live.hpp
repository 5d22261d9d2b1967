// Exact incremental replay of graphs in recorded order: after an edit only what can change is
// revisited, in topological order, and propagation stops where an op ends as it did before.
#pragma once

#include <memory>

#include "replay.hpp"

namespace paceline {

class Live {
  public:
    Live(std::shared_ptr<const Program>, std::span<const Time> dur);

    // New durations of some ops; they must not be negative. Returns how many ops were revisited.
    std::size_t resize(std::span<const Op> ops, std::span<const Time> dur);

    Time step() const;
    void times(Timeline& out) const;  // all columns, as a full replay gives them
    std::size_t bytes() const;

  private:
    void mark(Op at) { dirty_[at >> 6] |= 1ull << (at & 63); }
    void finish(Op at, Time end);
    std::size_t revisit(Op at);
    Time arrival(Op at) const;

    std::shared_ptr<const Program> program_;
    std::vector<Op> position_;         // op -> position
    std::vector<Time> dur_, end_;      // by position
    Csr succs_;                        // by position
    std::vector<Op> run_of_;           // position -> index of its joined run; empty without runs
    std::vector<std::uint64_t> dirty_; // one bit a position
};

}  // namespace paceline
