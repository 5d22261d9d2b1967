// What an endpoint is set to, what it is asked to send and receive, and what became of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "wire_transfer.hpp"

namespace paceline::wire {

struct Settings {
    std::size_t packet_bytes = 1432;   // of values: with all headers an Ethernet frame of 1,514
    double link_bits_per_s = 1e9;      // ours, which senders to us share, and what we send
    std::uint32_t window_bytes = 48'000;  // that may be under way to us at once
    std::uint32_t segments = 1;        // packets that the kernel may be handed as one
    std::uint32_t buffer_bytes = 4 << 20;
    std::uint8_t control_tos = 0;      // class of service of all that is not data
    Time retry_ns = 4'000'000;
    Time timeout_ns = 60'000'000'000;
    Control control;
    Patience patience;

    std::size_t frame_bytes() const { return packet_bytes + HEADER_BYTES + FRAME_BYTES; }
    // Packets that each of so many peers may have under way.
    std::uint32_t window(std::size_t shares) const {
        const std::size_t packets =
            window_bytes / frame_bytes() / std::max<std::size_t>(shares, 1);
        return static_cast<std::uint32_t>(std::max<std::size_t>(packets, 2));
    }
};

struct SendOrder {
    std::uint16_t peer = 0, tensor = 0, layer = 0;
    std::uint8_t phase = 0;
    std::span<const std::uint8_t> data, tos, important;
};

struct ReceiveOrder {
    std::uint16_t peer = 0, tensor = 0;
    std::uint8_t phase = 0;
    std::span<std::uint8_t> into;
    std::size_t budget_bytes = 0;
};

struct Orders {
    std::uint32_t step = 0;
    std::size_t budget_bytes = SIZE_MAX;  // that all its tensors together may lose
    std::vector<SendOrder> sends;
    std::vector<ReceiveOrder> receives;
};

struct Outcome {
    std::uint16_t peer = 0;
    Id id;
    std::size_t missing_bytes = 0;
    Time ended_ns = 0;
    std::vector<std::uint8_t> flags;  // a byte per packet: 1 has arrived
};

struct Sent {
    std::uint16_t peer = 0;
    Id id;
};

struct Progress {
    std::vector<Outcome> arrived;
    std::vector<Sent> sent;  // of which nothing is needed any more
};

}  // namespace paceline::wire
