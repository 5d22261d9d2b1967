// One tensor on its way from one rank to another: what the receiver has, what the sender still owes.
// No sockets and no clock here; `wire_endpoint` drives these.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "wire_pacing.hpp"

namespace paceline::wire {

struct Id {
    std::uint16_t peer = 0;
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

enum class Took : std::uint8_t { FRESH, DUPLICATE, MISFIT };

class Incoming {
public:
    Incoming(Id id, std::span<std::uint8_t> into, std::size_t packet_bytes, std::size_t budget);

    Took take(const Header& header, std::span<const std::uint8_t> payload, bool marked, Time now);
    void done(std::uint8_t round, std::span<const std::uint8_t> important, Time now);

    // Whether all is here, or all but what the budget covers and the network has lost.
    // `step_budget`: bytes that the step may still lose.
    bool enough(const Patience& patience, std::size_t step_budget, Time now) const;
    // Whether the sender is to be told what is missing.
    bool owes_answer(const Patience& patience, Time now) const;
    void answered(Time now) {
        asked_ = false;
        repaired_ = true;
        answered_at_ = now;
    }
    // When one of the two may turn true without a packet.
    Time next(const Patience& patience, std::size_t step_budget) const;

    Report report() const { return {highest_, received_, marked_, 0, 0}; }
    std::size_t missing_bytes() const { return missing_bytes_; }
    std::vector<std::uint8_t> bitmap() const;
    const std::vector<std::uint8_t>& flags() const { return flags_; }
    const Id& id() const { return id_; }
    std::uint8_t round() const { return round_; }
    std::size_t bytes() const { return into_.size(); }

    bool ended = false, lossy = false;  // `lossy`: packets were seen to be lost
    std::uint32_t unreported = 0;
    Time last_heard = 0, next_ready = 0, ready_wait = 0, report_due = 0;

private:
    bool spares(std::size_t step_budget) const;
    std::size_t size_of(std::size_t packet) const;

    Id id_;
    std::span<std::uint8_t> into_;
    std::size_t packet_bytes_, budget_, missing_bytes_;
    std::vector<std::uint8_t> flags_;      // a byte per packet: 1 has arrived
    std::vector<std::uint8_t> important_;  // the same: 1 must arrive; empty: none said
    std::uint32_t highest_ = 0, received_ = 0, marked_ = 0;
    std::uint8_t round_ = 0;
    bool asked_ = false, done_ = false, repaired_ = false;
    Time last_arrival_ = 0, done_at_ = 0, answered_at_ = 0;
};

// What a sender is given.
struct Outgoing {
    enum class State : std::uint8_t { WAITING, SENDING, PROBING, ENDED };

    Outgoing(Id id, std::span<const std::uint8_t> data, std::size_t packet_bytes,
             const Control& control, Time now);

    // Of the packet that is due after `ahead` others: its header, its bytes, its class of service.
    Header header(std::uint16_t source, std::uint32_t job, std::size_t ahead) const;
    std::span<const std::uint8_t> bytes(std::size_t ahead) const;
    std::uint8_t service(std::size_t ahead) const;
    std::size_t left() const { return due.size() - at; }
    void advance(std::size_t count);
    // The receiver's answer to round `round`: what it lacks is sent again.
    void repair(std::uint8_t round, std::span<const std::uint8_t> bitmap);

    Id id;
    std::span<const std::uint8_t> data;
    std::size_t packet_bytes;
    Pacer pacer;
    State state = State::WAITING;
    std::uint16_t layer = 0;
    std::span<const std::uint8_t> tos;         // a byte per packet, or one for all
    std::span<const std::uint8_t> important;   // a byte per packet, or empty
    std::vector<std::uint32_t> due;            // packets of this round
    std::size_t at = 0;                        // the next of them
    std::uint32_t sequence = 0;                // of the next packet
    std::uint8_t round = 0;
    std::uint64_t again = 0;                   // packets sent more than once
    Time last_heard = 0, next_probe = 0, probe_wait = 0;
    bool told = false;                         // DONE of this round went on the reliable channel
};

std::vector<std::uint8_t> packed_bits(std::span<const std::uint8_t> flags);

}  // namespace paceline::wire
