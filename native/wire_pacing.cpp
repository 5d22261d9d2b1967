#include "wire_pacing.hpp"

namespace paceline::wire {

namespace {
constexpr Time SILENCE_NS = 5'000'000;
constexpr std::uint32_t MOST_ASKED = 3;  // in a row
}  // namespace

void Pacer::grant(double bits_per_s, std::uint32_t window) {
    if (bits_per_s > 0) {
        // A new grant scales the rate: a sender that had to slow down stays as far below.
        rate_ = rate_ / granted_ * bits_per_s;
        granted_ = bits_per_s;
    }
    if (window) window_ = window;
}

// Once a window of packets has been reported: less rate by the share that was marked or lost, or a
// step more.
void Pacer::report(const Report& report, Time now) {
    if (report.received - newest_ > FURTHEST) return;  // overtaken by a later one
    newest_ = report.received;
    heard_ = now;
    asked_ = 0;
    if (report.received > 0 && ahead(report.highest + 1, seen_)) seen_ = report.highest + 1;
    grant(static_cast<double>(report.bits_per_s), report.window);
    const std::uint32_t span = seen_ - judged_;
    if (!control_.reacts || span < std::max<std::uint32_t>(window(), 8)) return;
    const std::uint32_t came = report.received - received_;
    const double lost = static_cast<double>(newly_lost(report)) / span;
    const double marked = came ? static_cast<double>(report.marked - marked_) / came : 0.0;
    marks_ += control_.gain * (std::max(marked, lost) - marks_);
    if (marked > 0 || lost > 0)
        rate_ *= 1 - marks_ / 2;
    else
        rate_ += control_.raise * granted_;
    rate_ = std::clamp(rate_, control_.least * granted_, granted_);
    judged_ = seen_;
    received_ = report.received;
    marked_ = report.marked;
}

// Packets that were missing a window ago too: those missing since may be on another path still.
std::int32_t Pacer::newly_lost(const Report& report) {
    const auto missing = static_cast<std::int32_t>(seen_ - report.received);
    const std::int32_t lost = std::min(missing, missing_);
    const std::int32_t fresh = std::max(0, lost - lost_);
    lost_ = std::min(std::max(lost, lost_), missing);
    missing_ = missing;
    return fresh;
}

void Pacer::refill(std::size_t frame_bytes, Time now) {
    const double share = rate() / 8e9 * static_cast<double>(now - last_);
    // The window alone bounds what reaches a queue at once, so a late sender may refill it whole.
    const double most = static_cast<double>(std::max(control_.burst, window()) * frame_bytes);
    tokens_ = std::min(most, tokens_ + control_.headroom * share);
    last_ = now;
}

// After the time in which a window crosses the network, twice that, four times that; after eight times
// that all is lost, or all reports.
Time Pacer::asks_at() const {
    const double bits = 8.0 * static_cast<double>(window() * control_.frame_bytes);
    const double granted = std::min(granted_, own_);
    const Time silence = std::max(SILENCE_NS, static_cast<Time>(1e9 * bits / granted));
    return std::max(heard_, silent_since_) + (silence << asked_);
}

bool Pacer::may_send(std::size_t frame_bytes, std::uint32_t sent, Time now) {
    refill(frame_bytes, now);
    if (in_flight(sent) == 0) silent_since_ = now;
    if (!open(sent) && now >= asks_at()) {
        const bool lost = asked_ == MOST_ASKED;
        seen_ = lost ? sent : sent + 1 - window();  // else room for one
        silent_since_ = now;
        asked_ = lost ? 0 : asked_ + 1;
    }
    return open(sent) && (!control_.paced || tokens_ >= static_cast<double>(frame_bytes));
}

void Pacer::sent(std::size_t frame_bytes) {
    const double frame = static_cast<double>(frame_bytes);
    tokens_ = std::max(tokens_ - frame, -frame);
}

Time Pacer::next(std::size_t frame_bytes, std::uint32_t sent, Time now) const {
    if (!open(sent)) return std::max(asks_at(), now);
    const double lacking = static_cast<double>(frame_bytes) - tokens_;
    if (!control_.paced || lacking <= 0) return now;
    return now + static_cast<Time>(lacking * 8e9 / (control_.headroom * rate())) + 1;
}

}  // namespace paceline::wire
