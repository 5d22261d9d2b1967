// A message of the transport: forty bytes of header, then its payload. The same form on UDP, where
// one datagram is one message, and on the reliable channel, where they follow one another.
//
//    0  u8  kind        8  u32 step        16  u32 offset     28  u16 payload
//    1  u8  importance 12  u16 tensor      20  u32 length     30  u8  phase
//    2  u16 source     14  u16 layer       24  u32 sequence   31  u8  round
//    4  u32 job                                               32  u64 checksum, keyed per job
//
// Nothing of a message is used before `read` called it fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "wire_siphash.hpp"

namespace paceline::wire {

enum class Kind : std::uint8_t {
    DATA = 1,   // values, to be written at `offset`
    HELLO = 2,  // who opened this reliable channel
    READY = 3,  // the receiver waits for the tensors named; carries a Report
    REPORT = 4, // what has arrived so far; carries a Report
    DONE = 5,   // the sender has sent all it had to in this round: packets before `sequence`;
                // carries which packets matter
    BITMAP = 6, // the answer to DONE: which packets have arrived
    STOP = 7,   // the receiver has enough of the tensors named; carries a Report
};
inline constexpr std::uint8_t LAST_KIND = 7;

struct Header {
    Kind kind{};
    std::uint8_t importance = 0;
    std::uint16_t source = 0;
    std::uint32_t job = 0, step = 0;
    std::uint16_t tensor = 0, layer = 0;
    std::uint32_t offset = 0, length = 0, sequence = 0;
    std::uint16_t payload = 0;
    std::uint8_t phase = 0, round = 0;
};

// What a receiver tells a sender: how much came, and at what rate to go on. Of all tensors together.
struct Report {
    std::uint32_t highest = 0, received = 0, marked = 0, window = 0;
    std::uint64_t bits_per_s = 0;
};

// A tensor that a message names behind its Report.
struct Named {
    std::uint32_t step = 0, length = 0;
    std::uint16_t tensor = 0;
    std::uint8_t phase = 0, unused = 0;
};
inline constexpr std::size_t MOST_NAMED = 100;  // in one message

// Numbers of packets that are further apart than this do not belong together.
inline constexpr std::uint32_t FURTHEST = 1u << 22;
inline bool apart(std::uint32_t one, std::uint32_t other) {
    return one - other > FURTHEST && other - one > FURTHEST;
}
// Whether one number of a packet comes after another; numbers begin again at 2^32.
inline bool ahead(std::uint32_t one, std::uint32_t other) {
    return static_cast<std::int32_t>(one - other) > 0;
}

enum class Verdict : std::uint8_t { FINE, TRUNCATED, MALFORMED, OTHER_JOB, FORGED };

inline constexpr std::size_t HEADER_BYTES = 40, SIGNED_BYTES = 32;
// Ethernet, IPv4 and UDP in front of a message, as a link's rate pays for them.
inline constexpr std::size_t FRAME_BYTES = 42;

// Writes the header in front of a payload that may lie elsewhere.
void write(const Header& header, const Key& key, std::span<const std::uint8_t> payload,
           std::uint8_t* into);

// Reads one whole message; `header` is filled only where the verdict is FINE.
Verdict read(std::span<const std::uint8_t> message, std::uint32_t job, const Key& key,
             Header& header);

// How long the message is that begins here; 0 while its head is incomplete.
std::size_t message_bytes(std::span<const std::uint8_t> stream);

// A Report, and the tensors named behind it.
std::vector<std::uint8_t> payload_of(const Report& report, std::span<const Named> named);
bool read(std::span<const std::uint8_t> payload, Report& report, std::vector<Named>& named);

}  // namespace paceline::wire
