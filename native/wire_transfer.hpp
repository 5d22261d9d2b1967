// One tensor on its way from one rank to another: what the receiver has, what the sender still owes.
// No sockets and no clock here; `wire_endpoint` drives these. A receiver's times are its Watch's.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "wire_pacing.hpp"

namespace paceline::wire {

// A tensor between two ranks. They are sent in this order.
struct Id {
    std::uint32_t step = 0;
    std::uint16_t tensor = 0;
    std::uint8_t phase = 0;
    auto operator<=>(const Id&) const = default;
};

// When a receiver may do without what has not come.
struct Patience {
    Time settle_ns = 1'000'000;  // after DONE: packets that another path still carries
    Time gap_ns = 20'000'000;    // without DONE: so long without a packet tells of a loss
};

inline std::size_t packets_of(std::size_t bytes, std::size_t packet_bytes) {
    return (bytes + packet_bytes - 1) / packet_bytes;
}

// What came of all of a sender's packets.
struct Tally {
    std::uint32_t next = 0;  // one past the newest
    std::uint32_t lost = 0;  // packets before it that have not come
};

enum class Took : std::uint8_t { FRESH, DUPLICATE, MISFIT };

// What a receiver was asked for, and by which post.
struct Wanted {
    std::span<std::uint8_t> into;
    std::size_t packet_bytes = 0, budget_bytes = 0;
    std::shared_ptr<std::size_t> shared_bytes;  // that all tensors of the post may still lose
    std::uint32_t post = 0;
};

class Incoming {
public:
    explicit Incoming(Wanted wanted);

    Took take(const Header& header, std::span<const std::uint8_t> payload, const Tally& tally,
              Time now);
    // All packets before `header.sequence` were sent.
    void done(const Header& header, std::span<const std::uint8_t> important, Time now);

    // Whether all is here, or all but what the budget covers and the network has lost.
    bool enough(const Patience& patience, const Tally& tally, Time now) const;
    // Whether the sender is to be told what is missing.
    bool owes_answer(const Patience& patience, Time now) const;
    void answered(const Tally& tally, Time now);
    // When one of the two may turn true without a packet.
    Time next(const Patience& patience, const Tally& tally) const;
    // What is missing by now is taken from what all tensors of the post may lose.
    void close();

    std::size_t missing_bytes() const { return missing_bytes_; }
    std::vector<std::uint8_t> bitmap() const;
    const std::vector<std::uint8_t>& flags() const { return flags_; }
    std::uint8_t round() const { return round_; }
    std::uint32_t bytes() const { return static_cast<std::uint32_t>(wanted_.into.size()); }
    std::uint32_t post() const { return wanted_.post; }

private:
    bool spares() const;
    bool may_be_lost(const Tally& tally) const;
    Time quiet_since() const { return std::max(done_at_, last_arrival_); }
    std::size_t size_of(std::size_t packet) const;

    Wanted wanted_;
    std::size_t missing_bytes_, missing_packets_;
    std::vector<std::uint8_t> flags_;      // a byte per packet: 1 has arrived
    std::vector<std::uint8_t> important_;  // the same: 1 must arrive; empty: none said
    std::uint8_t round_ = 0;
    bool begun_ = false, asked_ = false, done_ = false;
    bool answered_ = false;
    bool repeated_ = false;          // what was missing has been sent again
    bool known_ = false;             // what was missing when it last answered was lost
    std::uint32_t lost_before_ = 0;  // its sender's missing packets, when its own began to come
    std::uint32_t end_ = 0;          // one past the last packet of this round
    Time last_arrival_ = 0, done_at_ = 0, answered_at_ = 0;
};

// What a sender is given.
struct Parcel {
    std::span<const std::uint8_t> data;
    std::span<const std::uint8_t> tos;        // a byte per packet, or one for all
    std::span<const std::uint8_t> important;  // a byte per packet, or empty
    std::size_t packet_bytes = 0;
    std::uint16_t layer = 0;
};

struct Outgoing {
    enum class State : std::uint8_t { WAITING, SENDING, PROBING };

    Outgoing(const Id& id, const Parcel& parcel);

    // Of the packet that is due after `more` others: its header, its bytes, its class of service.
    Header header(std::size_t more) const;
    std::span<const std::uint8_t> bytes(std::size_t more) const;
    std::uint8_t service(std::size_t more) const;
    std::size_t left() const { return due.size() - at; }
    void begin() { state = due.empty() ? State::PROBING : State::SENDING; }
    void advance(std::size_t count);
    // The receiver's answer to round `round`: what it lacks is sent again.
    void repair(std::uint8_t round, std::span<const std::uint8_t> bitmap);

    Id id;
    Parcel parcel;
    State state = State::WAITING;
    std::vector<std::uint32_t> due;  // packets of this round
    std::size_t at = 0;              // the next of them
    std::uint8_t round = 0;
    std::uint32_t probes = 0;        // of this round
    std::uint32_t end = 0;           // one past the number of its last packet
    Time next_probe = 0, probe_wait = 0;
};

std::vector<std::uint8_t> packed_bits(std::span<const std::uint8_t> flags);

// For messages: "tensor 3 of step 7 (phase 1)".
std::string what(const Id& id);

}  // namespace paceline::wire
