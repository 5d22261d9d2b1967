// Exports levels: spans in, what to draw of a window out.
#include "levels.hpp"

#include <algorithm>
#include <cstdint>

#include "exported.hpp"

using namespace paceline;

namespace {

struct SpansTable {
    std::uint32_t spans, lanes;
    const Op* lane;
    const std::uint8_t* kind;
    const Time *start, *end;
    const Time* busy;         // or none
    const std::int32_t* ops;  // or none
};

struct WindowTable {
    std::uint32_t lanes, pixels;
    const Op* lane;
    const Time* borders;  // two
};

struct DrawnTable {
    std::uint32_t rows;
    const Op* lane;
    const std::uint8_t* kind;
    const Time *start, *end, *busy;
    const std::int32_t* ops;
    const Op* span;
};

class Viewed {  // levels, and what was drawn of them last
  public:
    Viewed(std::size_t lanes, Spans spans) : levels_(lanes, spans) {}

    void draw(const WindowTable& t, DrawnTable& out) {
        for (auto* column : {&drawn_.lane, &drawn_.span}) column->clear();
        for (auto* column : {&drawn_.start, &drawn_.end, &drawn_.busy}) column->clear();
        drawn_.kind.clear();
        drawn_.ops.clear();
        levels_.draw(window(t), column(t.lane, t.lanes), drawn_);
        out = {static_cast<std::uint32_t>(drawn_.lane.size()), drawn_.lane.data(),
               drawn_.kind.data(), drawn_.start.data(), drawn_.end.data(), drawn_.busy.data(),
               drawn_.ops.data(), drawn_.span.data()};
    }

    void sums(const WindowTable& t, Time* out) const {
        const auto found = levels_.sums(window(t), column(t.lane, t.lanes));
        std::copy(found.begin(), found.end(), out);
    }

  private:
    static Window window(const WindowTable& t) {
        return {t.borders[0], t.borders[1], static_cast<std::int32_t>(t.pixels)};
    }

    Levels levels_;
    Drawn drawn_;
};

}  // namespace

EXPORTED(levels_new) Viewed* levels_new(const SpansTable* t) {
    return new Viewed(t->lanes, {column(t->lane, t->spans), column(t->kind, t->spans),
                                 column(t->start, t->spans), column(t->end, t->spans),
                                 column(t->busy, t->busy ? t->spans : 0),
                                 column(t->ops, t->ops ? t->spans : 0)});
}

EXPORTED(levels_draw)
void levels_draw(Viewed* levels, const WindowTable* window, DrawnTable* out) {
    levels->draw(*window, *out);
}

EXPORTED(levels_sums)
void levels_sums(const Viewed* levels, const WindowTable* window, Time* out) {
    levels->sums(*window, out);
}

EXPORTED(levels_delete) void levels_delete(Viewed* levels) { delete levels; }

// Ends and work of intervals, from how long each lasts and how much of it no work fills, in place.
EXPORTED(levels_unpack)
void levels_unpack(const Time* start, Time* lasts, Time* idle, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        idle[i] = lasts[i] - idle[i];
        lasts[i] += start[i];
    }
}

struct TimesTable {
    std::uint32_t ops, kind_of_waiting;
    const Op* lane;
    const std::uint8_t* kind;
    const Time *ready, *start, *end;
};

// The spans of a timeline: each op's work, and what it waited for before it, where it did. Columns
// of 2 * ops rows are filled, and `of_op` says whose each row is; returns how many rows.
EXPORTED(spans_of)
std::uint32_t spans_of(const TimesTable* t, Op* lane, std::uint8_t* kind, Time* start, Time* end,
                       Op* of_op) {
    std::uint32_t rows = 0;
    const auto put = [&](Op op, std::uint8_t what, Time from, Time to) {
        if (to <= from) return;
        lane[rows] = t->lane[op];
        kind[rows] = what;
        start[rows] = from;
        end[rows] = to;
        of_op[rows++] = op;
    };
    for (Op op = 0; op < static_cast<Op>(t->ops); ++op) {
        put(op, static_cast<std::uint8_t>(t->kind_of_waiting), t->ready[op], t->start[op]);
        put(op, t->kind[op], t->start[op], t->end[op]);
    }
    return rows;
}
