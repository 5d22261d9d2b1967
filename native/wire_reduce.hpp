// Arithmetic on tensors of which packets may be missing.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline::wire {

// What came from one rank: its values, and a byte per packet that tells whether it is there.
struct Part {
    std::span<const float> values;
    std::span<const std::uint8_t> flags;  // empty: all are there
};

// Adds parts up in the order given, value by value; where only k of n came, the sum is scaled by
// n / k, so that it stands for all. Values of which none came are zero. With all there no value is
// scaled, so the sum is that of plain addition to the bit.
void add_up(std::span<const Part> parts, std::size_t packet_values, std::span<float> into);

// Mean magnitude of each packet's values.
std::vector<float> magnitudes(std::span<const float> values, std::size_t packet_values);

}  // namespace paceline::wire
