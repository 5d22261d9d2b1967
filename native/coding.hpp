// Columns of whole numbers as few bytes. Twin: paceline/report/page/coding.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

// Zigzag varints: small numbers of either sign take one byte, seven bits each.
std::vector<std::uint8_t> varints(std::span<const std::int64_t> values);

}  // namespace paceline
