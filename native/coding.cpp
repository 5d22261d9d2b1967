#include "coding.hpp"

#include <bit>

namespace paceline {
namespace {

// Numbers of either sign as small ones without: 0, -1, 1, -2, ...
std::uint64_t zigzag(std::int64_t value) {
    return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}

}  // namespace

std::vector<std::uint8_t> varints(std::span<const std::int64_t> values) {
    std::size_t size = 0;
    for (const std::int64_t value : values) size += (std::bit_width(zigzag(value) | 1) + 6) / 7;
    std::vector<std::uint8_t> out(size);
    std::uint8_t* at = out.data();
    for (const std::int64_t value : values) {
        std::uint64_t bits = zigzag(value);
        for (; bits >= 0x80; bits >>= 7) *at++ = static_cast<std::uint8_t>(bits | 0x80);
        *at++ = static_cast<std::uint8_t>(bits);
    }
    return out;
}

}  // namespace paceline
