// The seam for transfers whose time depends on what else is under way: flows that share links.
// The Python face is `Pace` in paceline/replay/pace.py; a class derived from Flows and bound with
// nanobind as `nb::class_<Mine, Flows>` serves both engines.
#pragma once

#include <limits>
#include <vector>

#include "replay.hpp"

namespace paceline {

inline constexpr Time kNever = std::numeric_limits<Time>::max();

class Flows {
  public:
    virtual ~Flows() = default;
    virtual void begin(Op op, Time now) = 0;  // the transfer of `op` starts
    virtual void settle(Time now) = 0;        // all that starts at this instant has begun
    virtual Time next_end() = 0;              // kNever where nothing runs
    virtual void take_ended(Time now, std::vector<Op>& ended) = 0;  // appends, ascending
};

}  // namespace paceline
