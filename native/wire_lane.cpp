#include "wire_lane.hpp"

#include <algorithm>

namespace paceline::wire {
namespace {

constexpr std::size_t REMEMBERED = 4096;
constexpr Time REPORT_NS = 1'000'000;
constexpr Time CROSSING_NS = 2'000'000;

}  // namespace

bool Arrivals::count(std::uint32_t sequence, bool marked, Time now) {
    if (!near(sequence)) return false;
    if (!ahead(next_, sequence)) next_ = sequence + 1;
    ++received_;
    marked_ += marked;
    if (unreported++ == 0) due = now + REPORT_NS;
    latest = now;
    return true;
}

Outgoing* Lane::sending() {
    const auto at = std::find_if(outgoing.begin(), outgoing.end(), [](const auto& o) {
        return o.second.state == Outgoing::State::SENDING;
    });
    return at == outgoing.end() ? nullptr : &at->second;
}

void Lane::remember(const Id& id, Time now) {
    finished_[id] = now;
    in_order_.push_back(id);
    if (in_order_.size() <= REMEMBERED) return;
    finished_.erase(in_order_.front());
    in_order_.pop_front();
}

bool Lane::asks_again(const Id& id, Time now) {
    const auto at = finished_.find(id);
    if (at == finished_.end() || now < at->second + CROSSING_NS) return false;
    at->second = now;
    return true;
}

}  // namespace paceline::wire
