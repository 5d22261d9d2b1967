// A timeline at a level of detail: what to draw of each lane for a window of time and a number of
// pixels. What is shorter than a pixel is merged with its neighbours, so that no more intervals come
// out than can be seen, however many ops there are. Twin: paceline/report/page/levels.py.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "replay.hpp"

namespace paceline {

inline constexpr std::size_t kKinds = 16;

struct Spans {  // what happens on lanes, no two of a lane at once; kinds are below kKinds
    std::span<const Op> lane;
    std::span<const std::uint8_t> kind;
    std::span<const Time> start, end;
    std::span<const Time> busy;         // how much of each is work; empty: all of it
    std::span<const std::int32_t> ops;  // how many each stands for; empty: one
};

struct Drawn {  // lanes as they were asked for, times ascending within a lane
    std::vector<Op> lane;
    std::vector<std::uint8_t> kind;   // that of most of its work
    std::vector<Time> start, end;
    std::vector<Time> busy;           // how much of it is work; the rest are gaps
    std::vector<std::int32_t> ops;    // how many it stands for
    std::vector<Op> span;             // the only one, or kNone where several are merged
};

struct Window {
    Time from, to;
    std::int32_t pixels;
};

class Levels {
  public:
    Levels(std::size_t lanes, Spans spans);  // looks at the spans as long as it lives

    // What lies in the window, of these lanes. Of spans that its borders cut, all is drawn.
    void draw(const Window&, std::span<const Op> lanes, Drawn& out) const;

    // Work by kind within the window, of these lanes; of spans that its borders cut, their share.
    std::array<Time, kKinds> sums(const Window&, std::span<const Op> lanes) const;

  private:
    std::span<const Op> inside(const Window&, Op lane) const;

    Spans t_;
    Csr by_lane_;  // lane -> its spans of some length, in order of time
};

}  // namespace paceline
