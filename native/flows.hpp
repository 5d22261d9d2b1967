// Flows that share links max-min fairly. Twin: paceline/cost/flows/sharing.py, equal bit for bit.
//
// A flow has `size` bytes to send and crosses links with a weight each: at rate r it takes
// r * weight of a link. Rates rise together until a link is full; its flows are then settled, and
// the others rise on. Only flows that share links, directly or through others, with one that began
// or ended are looked at again; of those only the ones above the rate at which that one joins or
// left, since slower ones are settled before it matters. What each flow left of its links is kept,
// so that settling goes on from there. A flow's owner ends `tail` ns after its last byte.
#pragma once

#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "replay.hpp"
#include "replay_flows.hpp"

namespace paceline {

struct FlowTable {  // columns; one row a flow, links in CSR form
    std::vector<double> size;
    std::vector<Time> tail;
    std::vector<std::int64_t> link_ptr;
    std::vector<Op> link;
    std::vector<double> weight;
    std::vector<double> capacity;  // bytes a second, one a link
    std::size_t flows() const { return size.size(); }
};

class SharedLinks {
  public:
    struct Saved;  // what is under way at an instant
    explicit SharedLinks(const FlowTable& table);
    Saved save(Time now) const;
    void restore(const Saved&, Time now);

    void begin(Op flow, Time now);
    void settle(Time now);
    Time next();                                         // kNever where nothing is under way
    void take_ended(Time now, std::vector<Op>& ended);   // flows, ascending

  private:
    struct Due {
        Time at;
        Op flow;
        bool drained;  // the last byte has gone: the link is free; else the owner ends
        bool operator>(const Due& o) const {
            return at != o.at ? at > o.at : flow > o.flow;
        }
    };
    struct State {
        double left = 0, rate = 0;
        Time since = 0, end = kNever;
        bool sending = false;
        std::int64_t turn = 0;  // flows were settled in this order
    };
    struct Left {  // of a link, once a flow on it was settled
        double room = 0, weights = 0;
        bool operator==(const Left&) const = default;
    };
    using Slot = std::int64_t;  // row of (flow, link) in the table

    void leave(Op flow);
    void touch(Op flow);
    void find_floor();
    double joining_level(Op link);
    void count_again(Op link);
    bool kept(Op flow) const { return state_[flow].rate > 0 && state_[flow].rate < floor_; }
    void gather(Op link);
    void share(Time now);
    double level(Op link) const;
    void set_rate(Op flow, double rate, Time now);
    bool stale(const Due& due) const;

    const FlowTable& t_;
    std::vector<State> state_;
    std::vector<Op> owner_;                  // flow of each slot
    std::vector<std::vector<Slot>> on_;      // link -> slots of flows that send over it
    std::vector<std::int64_t> place_;        // of each slot in on_
    std::vector<Left> after_;                // of each slot
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
    std::vector<Op> touched_;                // links
    bool any_began_ = false;                 // at this instant
    double left_rate_;                       // the lowest of flows that ended at this instant
    double floor_ = 0;                       // flows of a lower rate keep it
    std::int64_t turn_ = 0;
    std::vector<std::pair<double, double>> rates_;  // (rate, weight) on the link at hand
    std::vector<Slot> slots_;                // on the link at hand
    std::vector<std::uint8_t> link_seen_, counted_, flow_seen_;
    std::vector<Op> links_, flows_;          // of the component at hand
    std::vector<Op> shared_;                 // links of all components of this settling
    std::vector<double> room_, weights_;     // of each link
    std::vector<Op> open_;                   // unsettled flows on each link
    std::vector<std::vector<Op>> members_;   // all flows of the component on each link, ascending
    std::vector<std::pair<double, Op>> levels_;  // heap
    std::vector<std::uint8_t> settled_;
};

struct SharedLinks::Saved {
    struct Flow {
        Op flow;
        bool sending;
        double left, rate;
        Time since, end;  // relative to the instant
        bool operator==(const Flow&) const = default;
    };
    std::vector<Flow> flows;  // those that send in the order in which they were settled
    std::vector<Left> after;  // of their slots
    bool operator==(const Saved&) const = default;
};

struct Dag {  // messages that wait for messages: CSR of predecessors
    std::span<const std::int64_t> dep_ptr;
    std::span<const Op> dep_src;
    std::span<const Time> release;  // not before
};

// When each message starts and ends (its tail included); returns the number of flow events (a
// begin and an end each).
std::int64_t simulate(const FlowTable&, const Dag&, std::span<Time> start, std::span<Time> end);

// The seam to replay: ops carried by flows. Members of one collective share a flow.
class CarriedFlows final : public Flows {
  public:
    CarriedFlows(FlowTable table, std::vector<Op> flow_of_op);
    void begin(Op op, Time now) override;
    void settle(Time now) override { links_.settle(now); }
    Time next_end() override { return links_.next(); }
    void take_ended(Time now, std::vector<Op>& ended) override;
    std::unique_ptr<SavedFlows> save(Time now) const override;
    void restore(const SavedFlows&, Time now) override;

  private:
    FlowTable table_;
    SharedLinks links_;
    std::vector<Op> flow_of_op_;
    std::vector<std::vector<Op>> members_;  // flow -> ops that have begun
    std::vector<Op> flows_;
};

}  // namespace paceline
