// The seam for transfers whose time depends on what else is under way: flows that share links.
// The Python face is `Pace` in paceline/replay/pace.py; a class derived from Flows and bound with
// nanobind as `nb::class_<Mine, Flows>` serves both engines.
#pragma once

#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "replay.hpp"

namespace paceline {

inline constexpr Time kNever = std::numeric_limits<Time>::max();

class SavedFlows {  // what is under way at an instant; times are relative to it
  public:
    virtual ~SavedFlows() = default;
    // Whether all goes on alike from both: `other` was saved by the same flows.
    virtual bool equals(const SavedFlows& other) const = 0;
    virtual std::size_t bytes() const = 0;
};

class Flows {
  public:
    virtual ~Flows() = default;
    virtual void begin(Op op, Time now) = 0;  // the transfer of `op` starts
    virtual void settle(Time now) = 0;        // all that starts at this instant has begun
    virtual Time next_end() = 0;              // kNever where nothing runs
    virtual void take_ended(Time now, std::vector<Op>& ended) = 0;  // appends, ascending

    // For transfers that take processor time: how many threads are at work on each machine, told
    // before every settling, and how many cores the transfers take there, asked after it.
    virtual void see(std::span<const std::int32_t> /*threads*/) {}
    virtual std::span<const double> loads() const { return {}; }

    // For replays that go back in time, between rounds; null where a class cannot.
    virtual std::unique_ptr<SavedFlows> save(Time /*now*/) const { return nullptr; }
    virtual void restore(const SavedFlows&, Time /*now*/) {}
};

}  // namespace paceline
