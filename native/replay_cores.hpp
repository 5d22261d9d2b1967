// Rates of ops on machines whose cores they share. Twin: SharedCores in paceline/replay/cores.py,
// equal bit for bit: of ops that want the same the lower id is served first, and one whose rate
// stays is not touched.
// Machines on which nothing came, went or changed its load keep their rates and are left alone.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "replay.hpp"
#include "replay_agenda.hpp"
#include "replay_sharing.hpp"

namespace paceline {

class CoreRates {
  public:
    CoreRates(const Program&, const Sharing*, Agenda&);

    void begin(Op op, Time now, Time dur);
    void settle(Time now);
    Time next_carried() { return flows_ ? flows_->next_end() : kNever; }
    // Completes `ended`, which holds the ops whose own end is now, by those that flows carry.
    void take_ended(Time now, std::vector<Op>& ended);

  private:
    struct Job {  // the op that a lane runs: ns of work left at `since`, and how fast it passes
        double left = 0, rate = 0, want = 0, beside = 0, wait = 0;
        double pace = 1, own = 0;  // of its turns; its rate, were it alone in its instance
        Time since = 0;
    };
    struct Machine {
        double cores = 0, load = 0;  // cores that transfers take
        bool touched = false;
        std::vector<std::pair<double, Op>> running;  // by what they want, then by id
    };

    Job& job(Op op) { return jobs_[p_.lane_of[op]]; }
    Machine& machine(Op op) { return machines_[hosts_.machine[p_.lane_of[op]]]; }
    Op instance(Op op) const { return p_.instance_of.empty() ? kNone : p_.instance_of[op]; }
    void touch(Op machine);
    void settle_flows(Time now);
    void share(Machine&, std::int32_t threads);
    void set_rates(const Machine&, Time now);
    void change(Op op, double rate, Time now);
    double slowest(Op instance);

    const Program& p_;
    const Sharing& sharing_;
    const Hosts& hosts_;
    Agenda& agenda_;
    Flows* flows_;
    std::vector<Job> jobs_;  // one a lane
    std::vector<Machine> machines_;
    std::vector<std::int32_t> threads_;  // at work on each machine
    std::vector<Op> touched_;            // machines
    std::vector<std::uint8_t> runs_;     // one an op of an instance
    std::vector<Time> seen_;             // instance -> the settling that set its rates last
    Time settlings_ = 0;
};

}  // namespace paceline
