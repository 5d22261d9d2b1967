// Many replays with durations drawn from samples, over threads. The same draw gives the same
// durations on any number of threads: random numbers are a function of (seed, draw, op).
// Twin: paceline/replay/draws_reference.py.
#pragma once

#include "replay.hpp"

namespace paceline {

struct Samples {  // per op, CSR; ops without samples keep their duration
    std::span<const std::int64_t> ptr;
    std::span<const Time> value;
    bool interpolate;  // between sorted samples, instead of picking one
};

struct DrawInput {
    std::span<const Time> dur;
    std::span<const std::int32_t> priority;
    std::span<const std::int64_t> dep_ptr;
    std::span<const Op> dep_src;
    Samples samples;
    std::uint64_t seed;
    int threads;
    const Sharing* sharing = nullptr;  // without flows, which know one replay at a time
};

struct Draws {
    std::vector<Time> step;               // one a draw; -1 where the replay was stuck
    std::vector<std::uint32_t> critical;  // one an op: in how many draws it was critical
};

Draws draw_many(const Program&, const DrawInput&, std::size_t count);

}  // namespace paceline
