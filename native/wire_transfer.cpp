#include "wire_transfer.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace paceline::wire {

namespace {
constexpr Time REPEAT_NS = 2'000'000;  // a question that comes again so soon is a copy
}

std::string what(const Id& id) {
    return "tensor " + std::to_string(id.tensor) + " of step " + std::to_string(id.step) +
           " (phase " + std::to_string(id.phase) + ")";
}

Incoming::Incoming(Wanted wanted)
    : wanted_(std::move(wanted)), missing_bytes_(wanted_.into.size()),
      missing_packets_(packets_of(wanted_.into.size(), wanted_.packet_bytes)),
      flags_(missing_packets_, 0) {}

std::size_t Incoming::size_of(std::size_t packet) const {
    return std::min(wanted_.packet_bytes, wanted_.into.size() - packet * wanted_.packet_bytes);
}

Took Incoming::take(const Header& h, std::span<const std::uint8_t> payload, const Tally& tally,
                    Time now) {
    const std::size_t packet = h.offset / wanted_.packet_bytes;
    if (h.length != wanted_.into.size() || h.offset % wanted_.packet_bytes != 0 ||
        packet >= flags_.size() || payload.size() != size_of(packet))
        return Took::MISFIT;
    last_arrival_ = now;
    if (!begun_) lost_before_ = tally.lost;
    begun_ = true;
    if (flags_[packet]) return Took::DUPLICATE;
    std::memcpy(wanted_.into.data() + h.offset, payload.data(), payload.size());
    flags_[packet] = 1;
    missing_bytes_ -= payload.size();
    --missing_packets_;
    return Took::FRESH;
}

void Incoming::done(const Header& h, std::span<const std::uint8_t> important, Time now) {
    const auto further = static_cast<std::int8_t>(h.round - round_);
    const bool again = done_ && further == 0;
    if (done_ && (further < 0 || (again && answered_ && now < answered_at_ + REPEAT_NS))) return;
    if (!again) {
        done_at_ = now;
        end_ = h.sequence;
        repeated_ = done_;
    }
    begun_ = done_ = asked_ = true;
    round_ = h.round;
    if (important.size() == (flags_.size() + 7) / 8 && important_.empty()) {
        important_.resize(flags_.size());
        for (std::size_t i = 0; i < flags_.size(); ++i)
            important_[i] = important[i / 8] >> (i % 8) & 1;
    }
}

// Whether the budget covers all that is missing, and none of it must come.
bool Incoming::spares() const {
    if (missing_bytes_ > std::min(wanted_.budget_bytes, *wanted_.shared_bytes)) return false;
    for (std::size_t i = 0; i < important_.size(); ++i)
        if (important_[i] && !flags_[i]) return false;
    return true;
}

// Whether each missing packet was overtaken by a later one. DONE alone is no such sign: it may have
// overtaken the last packets on a quicker way.
bool Incoming::may_be_lost(const Tally& tally) const {
    if (done_) return !ahead(end_, tally.next);
    return tally.lost >= lost_before_ && tally.lost - lost_before_ >= missing_packets_;
}

bool Incoming::enough(const Patience& patience, const Tally& tally, Time now) const {
    if (missing_bytes_ == 0) return true;
    if (!begun_ || !spares()) return false;
    if (known_) return true;
    if (!may_be_lost(tally) && !repeated_) return false;
    return now >= (done_ ? quiet_since() + patience.settle_ns : last_arrival_ + patience.gap_ns);
}

bool Incoming::owes_answer(const Patience& patience, Time now) const {
    return asked_ && now >= quiet_since() + patience.settle_ns;
}

void Incoming::answered(const Tally& tally, Time now) {
    asked_ = false;
    answered_ = true;
    known_ = known_ || repeated_ || may_be_lost(tally);
    answered_at_ = now;
}

Time Incoming::next(const Patience& patience, const Tally& tally) const {
    if (asked_) return quiet_since() + patience.settle_ns;
    if (begun_ && !done_ && may_be_lost(tally) && spares()) return last_arrival_ + patience.gap_ns;
    return std::numeric_limits<Time>::max();
}

void Incoming::close() {
    *wanted_.shared_bytes -= std::min(*wanted_.shared_bytes, missing_bytes_);
}

std::vector<std::uint8_t> Incoming::bitmap() const { return packed_bits(flags_); }

std::vector<std::uint8_t> packed_bits(std::span<const std::uint8_t> flags) {
    std::vector<std::uint8_t> bits((flags.size() + 7) / 8, 0);
    for (std::size_t i = 0; i < flags.size(); ++i)
        bits[i / 8] |= static_cast<std::uint8_t>((flags[i] != 0) << (i % 8));
    return bits;
}

Outgoing::Outgoing(const Id& id, const Parcel& parcel)
    : id(id), parcel(parcel), due(packets_of(parcel.data.size(), parcel.packet_bytes)) {
    std::iota(due.begin(), due.end(), 0u);
}

Header Outgoing::header(std::size_t more) const {
    const std::uint32_t packet = due[at + more];
    Header h;
    h.kind = Kind::DATA;
    h.importance = parcel.important.empty() ? 0 : parcel.important[packet];
    h.step = id.step;
    h.tensor = id.tensor;
    h.layer = parcel.layer;
    h.offset = static_cast<std::uint32_t>(packet * parcel.packet_bytes);
    h.length = static_cast<std::uint32_t>(parcel.data.size());
    h.phase = id.phase;
    h.round = round;
    return h;
}

std::span<const std::uint8_t> Outgoing::bytes(std::size_t more) const {
    const std::size_t offset = due[at + more] * parcel.packet_bytes;
    return parcel.data.subspan(offset, std::min(parcel.packet_bytes, parcel.data.size() - offset));
}

std::uint8_t Outgoing::service(std::size_t more) const {
    if (parcel.tos.empty()) return 0;
    return parcel.tos.size() == 1 ? parcel.tos[0] : parcel.tos[due[at + more]];
}

void Outgoing::advance(std::size_t count) {
    at += count;
    if (at < due.size()) return;
    state = State::PROBING;
    next_probe = probe_wait = 0;
    probes = 0;
}

void Outgoing::repair(std::uint8_t answered, std::span<const std::uint8_t> bitmap) {
    const std::size_t packets = packets_of(parcel.data.size(), parcel.packet_bytes);
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
