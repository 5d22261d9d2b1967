// Exports edits: durations as they are slid, from those that the file carries.
#include <cmath>
#include <cstdint>

#include "exported.hpp"
#include "replay.hpp"

using namespace paceline;

namespace {

struct EditTable {
    std::uint32_t ops;
    const Time* base;
    const std::uint8_t* of_class;   // of each op
    const double* factor;           // of each class
    const std::int32_t* price_of;   // of each op: a row of `price`, or kNone
    const double* price;            // in ns, one a distinct communication
    const std::int64_t* scale_ppb;  // of each op: by what its price is multiplied
    Time* out;
};

}  // namespace

// A priced op takes its price, any other its base times the factor of its class; whole ns, halves to
// even, as numpy rounds.
EXPORTED(edited_durations) void edited_durations(const EditTable* t) {
    for (std::uint32_t op = 0; op < t->ops; ++op) {
        const double factor = t->factor[t->of_class[op]];
        if (const std::int32_t row = t->price_of[op]; row != kNone) {
            const double scale = static_cast<double>(t->scale_ppb[op]) / 1e9;
            t->out[op] = static_cast<Time>(std::nearbyint(t->price[row] * scale * factor));
        } else {
            t->out[op] = factor == 1 ? t->base[op] : static_cast<Time>(std::nearbyint(
                static_cast<double>(t->base[op]) * factor));
        }
    }
}

// Times as JavaScript has numbers, and back: whole ones are exact up to 2^53.
EXPORTED(numbers_of) void numbers_of(const Time* times, std::uint32_t count, double* out) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<double>(times[i]);
}

EXPORTED(times_of) void times_of(const double* numbers, std::uint32_t count, Time* out) {
    for (std::uint32_t i = 0; i < count; ++i) out[i] = static_cast<Time>(numbers[i]);
}
