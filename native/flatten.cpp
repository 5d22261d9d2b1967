#include "flatten.hpp"

#include <algorithm>

namespace paceline {
namespace {

constexpr int32_t kGap = -1;

// One thread, from left to right: the stack of open ranges and the time reached.
class Walk {
public:
    Walk(Segments& out, int32_t lane, const int64_t* cuts, std::size_t count)
        : out_(out), lane_(lane), cuts_(cuts), cut_count_(count) {}

    void enter(int32_t row, int64_t start, int64_t end) {
        leave_until(start);
        if (!begun_) at_ = start;
        begun_ = true;
        advance(start, 1, false);
        const int64_t limit = open_.empty() ? end : open_.back().end;
        open_.push_back({row, std::max(start, std::min(end, limit))});
        leaf_ = true;
        borders_ = 0;
    }

    void leave_until(int64_t moment) {
        while (!open_.empty() && open_.back().end <= moment) leave();
    }

    void leave_all() {
        while (!open_.empty()) leave();
    }

private:
    struct Open {
        int32_t row;
        int64_t end;
    };

    void leave() {
        advance(open_.back().end, 0, leaf_);
        open_.pop_back();
        leaf_ = false;
        borders_ = 1;
    }

    void advance(int64_t moment, int32_t border, bool keep) {
        int32_t borders = borders_ + border;
        while (next_cut_ < cut_count_ && cuts_[next_cut_] < moment) {
            const int64_t cut = cuts_[next_cut_];
            if (cut > at_) {
                emit(cut, borders);
                borders = 0;
                at_ = cut;
            }
            ++next_cut_;
        }
        if (moment > at_ || keep) emit(moment, borders);
        at_ = std::max(at_, moment);
    }

    void emit(int64_t end, int32_t borders) {
        out_.owner.push_back(open_.empty() ? kGap : open_.back().row);
        out_.lane.push_back(lane_);
        out_.start_ns.push_back(at_);
        out_.end_ns.push_back(std::max(end, at_));
        out_.after_cut.push_back(starts_at_cut());
        out_.borders.push_back(borders);
    }

    bool starts_at_cut() const {
        return (next_cut_ > 0 && cuts_[next_cut_ - 1] == at_) ||
               (next_cut_ < cut_count_ && cuts_[next_cut_] == at_);
    }

    Segments& out_;
    int32_t lane_;
    const int64_t* cuts_;
    std::size_t cut_count_;
    std::size_t next_cut_ = 0;
    std::vector<Open> open_;
    int64_t at_ = 0;
    int32_t borders_ = 0;
    bool begun_ = false;
    bool leaf_ = false;
};

}  // namespace

Segments flatten(const Ranges& ranges, const Cuts& cuts) {
    Segments out;
    std::size_t cut = 0;
    for (std::size_t row = 0; row < ranges.count;) {
        const int32_t lane = ranges.lane[row];
        while (cut < cuts.count && cuts.lane[cut] < lane) ++cut;
        std::size_t last = cut;
        while (last < cuts.count && cuts.lane[last] == lane) ++last;
        Walk walk(out, lane, cuts.at_ns + cut, last - cut);
        for (; row < ranges.count && ranges.lane[row] == lane; ++row)
            walk.enter(static_cast<int32_t>(row), ranges.start_ns[row], ranges.end_ns[row]);
        walk.leave_all();
        cut = last;
    }
    return out;
}

std::vector<int64_t> outer_ranges(const int64_t* ends, std::size_t count) {
    std::vector<int64_t> outer(count, -1), open;
    for (std::size_t row = 0; row < count; ++row) {
        while (!open.empty() && ends[open.back()] < ends[row]) open.pop_back();
        if (!open.empty()) outer[row] = open.back();
        open.push_back(static_cast<int64_t>(row));
    }
    return outer;
}

}  // namespace paceline
