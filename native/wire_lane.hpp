// All that is between us and one peer: what we send it and how fast, and what we wait for from it.
// Packets are numbered over all tensors, so that one report, one rate and one window serve them all.
#pragma once

#include <netinet/in.h>

#include <deque>
#include <map>
#include <vector>

#include "wire_transfer.hpp"

namespace paceline::wire {

// What came of a peer's packets.
class Arrivals {
public:
    // False where the number is too far ahead to be that of one of its packets.
    bool count(std::uint32_t sequence, bool marked, Time now);
    // Whether a number could be that of one of its packets, or one past the last.
    bool near(std::uint32_t sequence) const { return !apart(sequence, next_); }
    Report report() const { return {next_ - 1, received_, marked_, 0, 0}; }
    Tally tally() const { return {next_, ahead(next_, received_) ? next_ - received_ : 0}; }
    void told() { unreported = 0; }

    std::uint32_t unreported = 0;
    Time due = 0;     // when what is unreported is to be reported
    Time latest = 0;  // when the newest packet came

private:
    std::uint32_t next_ = 0, received_ = 0, marked_ = 0;
};

struct Lane {
    Lane(const sockaddr_in& address, const Control& control, Time now)
        : address(address), pacer(control, now), heard(now) {}

    bool idle() const { return incoming.empty() && outgoing.empty(); }
    // The first tensor that has packets to be sent; null where none has.
    Outgoing* sending();
    // The newest tensors that ended, so that a late question about them is answered.
    void remember(const Id& id, Time now);
    bool knows(const Id& id) const { return finished_.contains(id); }
    // The same of a question that did not cross our answer.
    bool asks_again(const Id& id, Time now);

    sockaddr_in address;
    Pacer pacer;
    std::uint32_t sequence = 0;  // of the next packet to the peer
    Arrivals arrivals;
    std::map<Id, Incoming> incoming;
    std::map<Id, Outgoing> outgoing;
    std::map<Id, std::uint32_t> early;  // asked for before we had an order, and how long
    std::vector<Named> stopped;         // ended since the peer was last told
    Time heard;                         // when it last said anything
    std::uint32_t asked = 0;            // the newest post that the peer is known to have heard of
    Time posted = 0;                    // when it was last asked for something
    Time next_ready = 0, ready_wait = 0;

private:
    std::map<Id, Time> finished_;  // and when the peer was told
    std::deque<Id> in_order_;
};

}  // namespace paceline::wire
