// Rates of running ops: compute and communication that slow each other on a device, and transfers
// carried by flows. Twins: ContendedPace and SplitPace in paceline/replay.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "replay.hpp"
#include "replay_agenda.hpp"
#include "replay_flows.hpp"

namespace paceline {

struct Sharing {
    std::span<const std::uint8_t> sort;   // of each op: neither, computes, communicates
    std::span<const Op> device;           // of each lane
    std::span<const std::int64_t> slowed; // units a ns: (compute, communication) of each device
    std::span<const std::uint8_t> carried;  // of each op; empty without flows
    Flows* flows = nullptr;
};

class Rates {
  public:
    Rates(const Program&, const Sharing*, Agenda&);

    void begin(Op op, Time now, Time dur);
    void settle(Time now);
    Time next_carried() { return flows_ ? flows_->next_end() : kNever; }
    // Completes `ended`, which holds the ops whose own end is now, by those that flows carry.
    void take_ended(Time now, std::vector<Op>& ended);

  private:
    struct Job {  // the op that a lane runs at a rate
        Op op = kNone;
        Time left = 0, since = 0, rate = 0, end = 0;
    };

    bool carried(Op op) const { return flows_ && sharing_->carried[op]; }
    void count(Op op, int change);
    void touch(Op device);
    Time own_rate(Op op) const;
    bool runs(Op op) const { return jobs_[p_.lane_of[op]].op == op; }
    void reprice(Op op, Time now);
    void set_rate(Op lane, Time rate, Time now);

    const Program& p_;
    const Sharing* sharing_;
    Agenda& agenda_;
    Flows* flows_;
    std::vector<Job> jobs_;
    std::vector<std::array<Op, 3>> running_;  // ops of each sort on each device
    Csr lanes_on_;                            // device -> lanes
    std::vector<Op> touched_;
    std::vector<std::uint8_t> is_touched_;
};

}  // namespace paceline
