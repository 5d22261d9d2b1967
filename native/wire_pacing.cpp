#include "wire_pacing.hpp"

namespace paceline::wire {

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
    steady_ = std::min(static_cast<double>(control_.burst * frame_bytes), steady_ + control_.steady * share);
    last_ = now;
}

bool Pacer::may_send(std::size_t frame_bytes, std::uint32_t sent, Time now) {
    refill(frame_bytes, now);
    if (in_flight(sent) == 0) silent_since_ = now;
    if (!open(sent) && now - std::max(heard_, silent_since_) >= SILENCE) {
        seen_ = sent;  // reports were lost, or all that was sent
        silent_since_ = now;
    }
    if (!control_.paced) return open(sent);
    const double frame = static_cast<double>(frame_bytes);
    return (open(sent) && tokens_ >= frame) || steady_ >= frame;
}

void Pacer::sent(std::size_t frame_bytes) {
    const double frame = static_cast<double>(frame_bytes);
    tokens_ = std::max(tokens_ - frame, -frame);
    // What went faster is owed to the slower way, up to what the window holds.
    steady_ = std::max(steady_ - frame, -frame * window());
}

Time Pacer::next(std::size_t frame_bytes, std::uint32_t sent, Time now) const {
    const Time silent = std::max(heard_, silent_since_) + SILENCE;
    if (!control_.paced) return open(sent) ? now : silent;
    const auto after = [&](double have, double factor) {
        const double lacking = static_cast<double>(frame_bytes) - have;
        return lacking <= 0 ? now : now + static_cast<Time>(lacking * 8e9 / (factor * rate())) + 1;
    };
    const Time steady = after(steady_, control_.steady);
    return std::min(steady, open(sent) ? after(tokens_, control_.headroom) : silent);
}

}  // namespace paceline::wire
