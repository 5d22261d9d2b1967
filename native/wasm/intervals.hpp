// Intervals that do not overlap, in order of time.
#pragma once

#include <algorithm>
#include <vector>

#include "replay.hpp"

namespace paceline {

struct Interval {
    Time begin, end;
};

using Intervals = std::vector<Interval>;

// One more, which begins no earlier than the last; joined to it where they touch.
inline void add(Intervals& found, Time begin, Time end) {
    if (end <= begin) return;
    if (!found.empty() && begin <= found.back().end)
        found.back().end = std::max(found.back().end, end);
    else
        found.push_back({begin, end});
}

// What lies in either.
inline void join(Intervals& into, const Intervals& more, Intervals& scratch) {
    if (more.empty()) return;
    if (into.empty()) {
        into = more;
        return;
    }
    scratch.clear();
    std::size_t i = 0, j = 0;
    while (i < into.size() || j < more.size()) {
        const bool first = j >= more.size() || (i < into.size() && into[i].begin <= more[j].begin);
        const Interval& next = first ? into[i++] : more[j++];
        add(scratch, next.begin, next.end);
    }
    into.swap(scratch);
}

inline Time length(const Intervals& list) {
    Time sum = 0;
    for (const auto& [begin, end] : list) sum += end - begin;
    return sum;
}

// How much of the time lies in both.
inline Time common(const Intervals& a, const Intervals& b) {
    Time sum = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const Time begin = std::max(a[i].begin, b[j].begin), end = std::min(a[i].end, b[j].end);
        if (end > begin) sum += end - begin;
        if (a[i].end < b[j].end)
            ++i;
        else
            ++j;
    }
    return sum;
}

}  // namespace paceline
