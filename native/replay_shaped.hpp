// Messages over shaped links: token buckets, senders' queues, and processor time at either end.
// Twin: paceline/replay/shaped_pace.py, equal bit for bit: messages are looked at in the order in
// which they were asked for, those of one instant by number, and sums run in that order.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "replay.hpp"
#include "replay_flows.hpp"

namespace paceline {

struct ShapedTable {  // columns, as ShapedMessages in paceline/replay/messages.py
    std::vector<Op> message_of_op;
    std::vector<double> size;  // bytes of each message
    std::vector<std::int64_t> link_ptr;
    std::vector<Op> link;  // of each message, its sender's first
    std::vector<double> capacity, burst;  // of each link, bytes a ns and bytes
    std::vector<Op> source, target;       // machine of each message's ends; empty without cores
    std::vector<Op> other;                // the message the other way on its connection, or none
    std::vector<double> cores;            // of each machine
    std::span<const Op> path(Op message) const {
        return {link.data() + link_ptr[message], link.data() + link_ptr[message + 1]};
    }
};

struct Shaping {
    double cpu_ns_per_byte, window_bytes;
    Time message_ns, late_ns;
};

// Rates of flows that share links max-min fairly, none above `most`.
class MaxMin {
  public:
    explicit MaxMin(std::size_t links) : left_(links), users_(links), used_(links) {}
    void share(const std::vector<std::span<const Op>>& paths, std::span<const double> capacity,
               double most, std::vector<double>& rates);

  private:
    void rise(const std::vector<std::span<const Op>>& paths, double most,
              std::vector<double>& rates);

    std::vector<double> left_;
    std::vector<Op> users_;              // of each link, among those that grow
    std::vector<std::uint8_t> used_;
    std::vector<Op> links_, growing_;    // that any flow crosses; flows
};

class ShapedFlows final : public Flows {
  public:
    ShapedFlows(ShapedTable, Shaping);
    void begin(Op op, Time now) override;
    void settle(Time now) override;
    Time next_end() override { return next_; }
    void take_ended(Time now, std::vector<Op>& ended) override;
    void see(std::span<const std::int32_t> threads) override;
    std::span<const double> loads() const override { return loads_; }

  private:
    struct Message {
        Op number;
        double left;
        Time begins = 0;     // when its first byte moves
        double rate = 0;     // bytes a ns
        double behind = -1;  // bytes before it in its sender's queue; below zero: not yet there
        std::vector<Op> members;
        bool queued() const { return behind >= 0; }
    };

    static bool moves(const Message&);
    static bool ended(const Message&);
    std::array<Op, 2> ends(const Message&) const;
    Op first_link(const Message&) const;
    void ask(Time now);
    bool busy(const Message&) const;
    bool follows(std::size_t place) const;
    void queue(Message&);
    void set_rates();
    void share_cores();
    void sum_loads(std::vector<double>&) const;
    void sum_used();
    void find_next();
    void advance(Time now);

    ShapedTable t_;
    Shaping shaping_;
    MaxMin links_;
    std::vector<double> tokens_, free_, used_, loads_, wanted_, rates_;
    std::vector<std::int32_t> threads_;
    std::vector<Message> asked_, messages_;  // at this instant; as they were asked for
    std::vector<Message*> moving_;
    std::vector<std::span<const Op>> paths_;
    Time since_ = 0, next_ = kNever;
    bool changed_ = false;
};

}  // namespace paceline
