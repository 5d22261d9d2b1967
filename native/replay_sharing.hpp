// Rates of running ops: compute and communication that slow each other on a device, and transfers
// carried by flows. Twins: ContendedPace and SplitPace in paceline/replay.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "replay.hpp"
#include "replay_agenda.hpp"
#include "replay_flows.hpp"

namespace paceline {

struct Hosts {  // machines whose cores are shared; twin: HostColumns in paceline/replay/hosts.py
    std::span<const Op> machine;         // of each lane
    std::span<const double> cores;       // of each machine
    std::span<const std::uint8_t> works; // of each op: it takes a whole core
    std::span<const Time> cpu, turn;     // of each op: processor time, and what it waits for
    std::span<const Time> beside;        // of each op: processor time more beside work everywhere
    bool loaded = false;                 // flows take processor time as well
};

struct Sharing {
    std::span<const std::uint8_t> sort;   // of each op: neither, computes, communicates
    std::span<const Op> device;           // of each lane
    std::span<const std::int64_t> slowed; // units a ns: (compute, communication) of each device
    std::span<const std::uint8_t> carried;  // of each op; empty without flows
    Flows* flows = nullptr;
    const Hosts* hosts = nullptr;
};

struct SavedRates {  // what runs at an instant and how fast; times are relative to it
    struct Job {
        Op lane, op;
        Time left, rate;
        bool operator==(const Job&) const = default;
    };
    std::vector<Job> jobs;
    std::vector<std::array<Op, 3>> running;
    std::unique_ptr<SavedFlows> flows;

    bool equals(const SavedRates& other) const {
        return jobs == other.jobs && running == other.running &&
               (!flows || flows->equals(*other.flows));
    }
    std::size_t bytes() const {
        return jobs.size() * sizeof(Job) + running.size() * 12 + (flows ? flows->bytes() : 0);
    }
};

template <class P>  // Program or Editable
class Rates {
  public:
    Rates(const P&, const Sharing*, Agenda&);

    void begin(Op op, Time now, Time dur);
    void settle(Time now);
    Time next_carried() { return flows_ ? flows_->next_end() : kNever; }
    // Completes `ended`, which holds the ops whose own end is now, by those that flows carry.
    void take_ended(Time now, std::vector<Op>& ended);

    SavedRates save(Time now) const;                // between rounds
    void restore(const SavedRates&, Time now);      // sets the agenda as well

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

    const P& p_;
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
