#include "wire_transfer.hpp"

#include <limits>
#include <numeric>

namespace paceline::wire {

namespace {
constexpr Time REPEAT_NS = 2'000'000;  // a question that comes again so soon is a copy
}

Incoming::Incoming(Id id, std::span<std::uint8_t> into, std::size_t packet_bytes,
                   std::size_t budget)
    : id_(id), into_(into), packet_bytes_(packet_bytes), budget_(budget),
      missing_bytes_(into.size()), flags_(packets_of(into.size(), packet_bytes), 0) {}

std::size_t Incoming::size_of(std::size_t packet) const {
    return std::min(packet_bytes_, into_.size() - packet * packet_bytes_);
}

Took Incoming::take(const Header& h, std::span<const std::uint8_t> payload, bool marked,
                    Time now) {
    const std::size_t packet = h.offset / packet_bytes_;
    if (h.length != into_.size() || h.offset % packet_bytes_ != 0 || packet >= flags_.size() ||
        payload.size() != size_of(packet))
        return Took::MISFIT;
    last_heard = last_arrival_ = now;
    ++received_;
    ++unreported;
    marked_ += marked;
    highest_ = std::max(highest_, h.sequence);
    if (flags_[packet]) return Took::DUPLICATE;
    std::memcpy(into_.data() + h.offset, payload.data(), payload.size());
    flags_[packet] = 1;
    missing_bytes_ -= payload.size();
    return Took::FRESH;
}

void Incoming::done(std::uint8_t round, std::span<const std::uint8_t> important, Time now) {
    last_heard = now;
    const auto ahead = static_cast<std::int8_t>(round - round_);
    if (done_ && (ahead < 0 || (ahead == 0 && now < answered_at_ + REPEAT_NS))) return;
    if (!done_ || ahead > 0) done_at_ = now;
    done_ = asked_ = true;
    round_ = round;
    if (important.size() == (flags_.size() + 7) / 8 && important_.empty()) {
        important_.resize(flags_.size());
        for (std::size_t i = 0; i < flags_.size(); ++i)
            important_[i] = important[i / 8] >> (i % 8) & 1;
    }
}

// Whether the budget covers all that is missing, and none of it must come.
bool Incoming::spares(std::size_t step_budget) const {
    if (missing_bytes_ > std::min(budget_, step_budget)) return false;
    for (std::size_t i = 0; i < important_.size(); ++i)
        if (important_[i] && !flags_[i]) return false;
    return true;
}

bool Incoming::enough(const Patience& patience, std::size_t step_budget, Time now) const {
    if (missing_bytes_ == 0) return true;
    if (!(done_ || received_ > 0) || !spares(step_budget)) return false;
    if (repaired_) return true;  // losses are known by now; what remains is within the budget
    if (done_) return now >= std::max(done_at_, last_arrival_) + patience.settle_ns;
    return now >= last_arrival_ + patience.gap_ns;
}

bool Incoming::owes_answer(const Patience& patience, Time now) const {
    return asked_ && now >= std::max(done_at_, last_arrival_) + patience.settle_ns;
}

Time Incoming::next(const Patience& patience, std::size_t step_budget) const {
    const Time settled = std::max(done_at_, last_arrival_) + patience.settle_ns;
    if (asked_) return settled;
    if (received_ > 0 && !done_ && missing_bytes_ <= std::min(budget_, step_budget))
        return last_arrival_ + patience.gap_ns;
    return std::numeric_limits<Time>::max();
}

std::vector<std::uint8_t> Incoming::bitmap() const { return packed_bits(flags_); }

std::vector<std::uint8_t> packed_bits(std::span<const std::uint8_t> flags) {
    std::vector<std::uint8_t> bits((flags.size() + 7) / 8, 0);
    for (std::size_t i = 0; i < flags.size(); ++i)
        bits[i / 8] |= static_cast<std::uint8_t>((flags[i] != 0) << (i % 8));
    return bits;
}

Outgoing::Outgoing(Id id, std::span<const std::uint8_t> data, std::size_t packet_bytes,
                   const Control& control, Time now)
    : id(id), data(data), packet_bytes(packet_bytes), pacer(control, now),
      due(packets_of(data.size(), packet_bytes)), last_heard(now) {
    std::iota(due.begin(), due.end(), 0u);
}

Header Outgoing::header(std::uint16_t source, std::uint32_t job, std::size_t ahead) const {
    const std::uint32_t packet = due[at + ahead];
    Header h;
    h.kind = Kind::DATA;
    h.importance = important.empty() ? 0 : important[packet];
    h.source = source;
    h.job = job;
    h.step = id.step;
    h.tensor = id.tensor;
    h.layer = layer;
    h.offset = static_cast<std::uint32_t>(packet * packet_bytes);
    h.length = static_cast<std::uint32_t>(data.size());
    h.sequence = sequence + static_cast<std::uint32_t>(ahead);
    h.phase = id.phase;
    h.round = round;
    return h;
}

std::span<const std::uint8_t> Outgoing::bytes(std::size_t ahead) const {
    const std::size_t offset = due[at + ahead] * packet_bytes;
    return data.subspan(offset, std::min(packet_bytes, data.size() - offset));
}

std::uint8_t Outgoing::service(std::size_t ahead) const {
    if (tos.empty()) return 0;
    return tos.size() == 1 ? tos[0] : tos[due[at + ahead]];
}

void Outgoing::advance(std::size_t count) {
    sequence += static_cast<std::uint32_t>(count);
    if (round > 0) again += count;
    at += count;
    if (at < due.size()) return;
    state = State::PROBING;
    next_probe = probe_wait = 0;
    told = false;
}

void Outgoing::repair(std::uint8_t answered, std::span<const std::uint8_t> bitmap) {
    const std::size_t packets = packets_of(data.size(), packet_bytes);
    if (state != State::PROBING || answered != round || bitmap.size() != (packets + 7) / 8) return;
    std::vector<std::uint32_t> missing;
    for (std::size_t i = 0; i < packets; ++i)
        if (!(bitmap[i / 8] >> (i % 8) & 1)) missing.push_back(static_cast<std::uint32_t>(i));
    if (missing.empty()) return;  // STOP is on its way
    due = std::move(missing);
    at = 0;
    round = static_cast<std::uint8_t>(round + 1);
    state = State::SENDING;
}

}  // namespace paceline::wire
