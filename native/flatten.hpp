// Nested ranges of threads -> their timeline of self time. The specification, with the same names,
// is `plain_flatten` in src/paceline/record/flatten.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

struct Ranges {
    const int32_t* lane;
    const int64_t* start_ns;
    const int64_t* end_ns;
    std::size_t count;
};

struct Cuts {
    const int32_t* lane;
    const int64_t* at_ns;
    std::size_t count;
};

struct Segments {
    std::vector<int32_t> owner, lane, borders;
    std::vector<int64_t> start_ns, end_ns;
    std::vector<uint8_t> after_cut;
};

// Ranges sorted by (lane, start, longest first), cuts by (lane, time).
Segments flatten(const Ranges& ranges, const Cuts& cuts);

// For ranges in order of start: the nearest earlier one that ends later; -1 for none.
std::vector<int64_t> outer_ranges(const int64_t* ends, std::size_t count);

}  // namespace paceline
