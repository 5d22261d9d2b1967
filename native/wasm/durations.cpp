// Exports how long ops take as they are slid, from what the file carries. Rounded as Python rounds:
// to whole ns, halves to even, change by change.
#include <cmath>
#include <cstdint>

#include "exported.hpp"
#include "replay.hpp"

using namespace paceline;

namespace {

constexpr std::uint32_t kLevers = 8;  // bits of `touched`

struct SlideTable {
    std::uint32_t ops;
    const Time* base;
    const std::uint8_t* touched;    // of each op, by bit: the levers that slide it
    const double* factor;           // of each lever; 1 where it rests
    const std::int32_t* price_of;   // of each op: a row of `price`, or kNone
    const double* price;            // in ns, one a distinct communication
    const std::int64_t* scale_ppb;  // of each op: by what its price is multiplied
    Time* out;
};

struct RestsTable {
    std::uint32_t ops, lanes;
    const Op* lane;
    const std::uint8_t* kind;
    const Time* priced;
    const Time *start, *end;  // of a replay of these
    const double* rests;      // how long a rest is at least, the factor of what follows one, and for
                              // how much work that lasts
    Time* out;
};

struct Moved {  // the levers that do not rest
    std::uint32_t count = 0;
    std::uint8_t bit[kLevers];
    double factor[kLevers];

    explicit Moved(const double* factors) {
        for (std::uint32_t lever = 0; lever < kLevers; ++lever)
            if (factors[lever] != 1) {
                bit[count] = static_cast<std::uint8_t>(1 << lever);
                factor[count++] = factors[lever];
            }
    }

    double apply(double value, std::uint8_t touched) const {
        for (std::uint32_t i = 0; i < count; ++i)
            if (touched & bit[i]) value = std::nearbyint(value * factor[i]);
        return value;
    }
};

constexpr std::uint8_t kCompute = 0;

}  // namespace

// Levers change an op one after the other; those of one that takes its time from a price change by
// what the price is multiplied.
EXPORTED(slid_durations) void slid_durations(const SlideTable* t) {
    const Moved moved(t->factor);
    for (std::uint32_t op = 0; op < t->ops; ++op) {
        const std::uint8_t touched = t->touched[op];
        if (const std::int32_t row = t->price_of[op]; row != kNone) {
            const double parts = moved.apply(static_cast<double>(t->scale_ppb[op]), touched);
            t->out[op] = static_cast<Time>(std::nearbyint(t->price[row] * (parts / 1e9)));
        } else {
            t->out[op] = static_cast<Time>(moved.apply(static_cast<double>(t->base[op]), touched));
        }
    }
}

// Work that began after a rest of its lane, or before the lane had worked for long enough since,
// takes longer, as paceline/predict/rests.py has it. `worked`: by lane, how much since its last rest.
EXPORTED(rested_durations) void rested_durations(const RestsTable* t, Time* ended, Time* worked) {
    constexpr Time kNever = -1;
    for (std::uint32_t lane = 0; lane < t->lanes; ++lane) ended[lane] = worked[lane] = kNever;
    for (std::uint32_t op = 0; op < t->ops; ++op) {
        const Time priced = t->priced[op];
        t->out[op] = priced;
        if (t->kind[op] != kCompute || priced <= 0) continue;
        Time &before = ended[t->lane[op]], &since = worked[t->lane[op]];
        const bool rested = before != kNever && static_cast<double>(t->start[op] - before) >= t->rests[0];
        if (rested) since = 0;
        const bool cold = since != kNever && static_cast<double>(since) < t->rests[2] / t->rests[1];
        if (rested || cold)
            t->out[op] = static_cast<Time>(std::nearbyint(static_cast<double>(priced) * t->rests[1]));
        if (since != kNever) since += priced;
        before = t->end[op];
    }
}

// Times as JavaScript has numbers, and back: whole ones are exact up to 2^53.
EXPORTED(numbers_of) void numbers_of(const Time* times, std::uint32_t count, double* out) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<double>(times[i]);
}

EXPORTED(times_of) void times_of(const double* numbers, std::uint32_t count, Time* out) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<Time>(numbers[i]);
}
