#include "levels.hpp"

#include <algorithm>

namespace paceline {
namespace {

Time work(const Spans& t, Op span) {
    return t.busy.empty() ? t.end[span] - t.start[span] : t.busy[span];
}

class Merging {  // spans of one lane that follow one another
  public:
    Merging(const Spans& spans, Op lane, Time pixel, Drawn& out)
        : t_(spans), lane_(lane), pixel_(pixel), out_(out) {}

    void take(Op span) {
        const Time start = t_.start[span], end = t_.end[span];
        const bool small = end - start < pixel_;
        if (!small || !small_ || start - end_ >= pixel_ || end - start_ > pixel_) {
            put();
            start_ = start;
            only_ = span;
        } else {
            only_ = kNone;
        }
        small_ = small;
        end_ = end;
        ops_ += t_.ops.empty() ? 1 : t_.ops[span];
        of_kind_[t_.kind[span]] += work(t_, span);
    }

    void put() {
        if (ops_ == 0) return;
        const auto most = std::max_element(of_kind_.begin(), of_kind_.end());
        Time busy = 0;
        for (const Time one : of_kind_) busy += one;
        out_.lane.push_back(lane_);
        out_.kind.push_back(static_cast<std::uint8_t>(most - of_kind_.begin()));
        out_.start.push_back(start_);
        out_.end.push_back(end_);
        out_.busy.push_back(busy);
        out_.ops.push_back(ops_);
        out_.span.push_back(only_);
        ops_ = 0;
        of_kind_.fill(0);
    }

  private:
    const Spans& t_;
    Op lane_;
    Time pixel_;
    Drawn& out_;
    Op only_ = kNone;
    std::int32_t ops_ = 0;
    bool small_ = false;  // all of them are shorter than a pixel
    Time start_ = 0, end_ = 0;
    std::array<Time, kKinds> of_kind_{};
};

}  // namespace

Levels::Levels(std::size_t lanes, Spans spans) : t_(spans) {
    std::vector<Op> rows, keys;
    for (Op span = 0; span < static_cast<Op>(t_.lane.size()); ++span)
        if (t_.end[span] > t_.start[span]) {
            rows.push_back(span);
            keys.push_back(t_.lane[span]);
        }
    by_lane_ = group_by(lanes, keys, rows);
    const auto earlier = [&](Op a, Op b) { return t_.start[a] < t_.start[b]; };
    for (std::size_t lane = 0; lane < lanes; ++lane) {
        const auto begin = by_lane_.item.begin() + by_lane_.begin(lane);
        const auto end = by_lane_.item.begin() + by_lane_.end(lane);
        if (!std::is_sorted(begin, end, earlier)) std::sort(begin, end, earlier);
    }
}

std::span<const Op> Levels::inside(const Window& window, Op lane) const {
    const auto row = by_lane_.row(lane);
    const auto first = std::partition_point(
        row.begin(), row.end(), [&](Op span) { return t_.end[span] <= window.from; });
    const auto last = std::partition_point(
        first, row.end(), [&](Op span) { return t_.start[span] < window.to; });
    return {first, last};
}

void Levels::draw(const Window& window, std::span<const Op> lanes, Drawn& out) const {
    const Time pixel = std::max<Time>(1, (window.to - window.from) / std::max(1, window.pixels));
    for (const Op lane : lanes) {
        Merging merging(t_, lane, pixel, out);
        for (const Op span : inside(window, lane)) merging.take(span);
        merging.put();
    }
}

std::array<Time, kKinds> Levels::sums(const Window& window, std::span<const Op> lanes) const {
    std::array<Time, kKinds> found{};
    for (const Op lane : lanes)
        for (const Op span : inside(window, lane)) {
            const Time start = t_.start[span], end = t_.end[span];
            const Time cut = std::min(end, window.to) - std::max(start, window.from);
            const double share = static_cast<double>(cut) / static_cast<double>(end - start);
            found[t_.kind[span]] += static_cast<Time>(static_cast<double>(work(t_, span)) * share);
        }
    return found;
}

}  // namespace paceline
