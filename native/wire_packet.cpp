#include "wire_packet.hpp"

namespace paceline::wire {
namespace {

template <class T>
void put(std::uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

template <class T>
T get(const std::uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

std::uint64_t checksum(const Key& key, const std::uint8_t* head,
                       std::span<const std::uint8_t> payload) {
    SipHash hash(key);
    hash.add({head, SIGNED_BYTES});
    hash.add(payload);
    return hash.digest();
}

Header parsed(const std::uint8_t* at) {
    Header h;
    h.kind = static_cast<Kind>(at[0]);
    h.importance = at[1];
    h.source = get<std::uint16_t>(at + 2);
    h.job = get<std::uint32_t>(at + 4);
    h.step = get<std::uint32_t>(at + 8);
    h.tensor = get<std::uint16_t>(at + 12);
    h.layer = get<std::uint16_t>(at + 14);
    h.offset = get<std::uint32_t>(at + 16);
    h.length = get<std::uint32_t>(at + 20);
    h.sequence = get<std::uint32_t>(at + 24);
    h.payload = get<std::uint16_t>(at + 28);
    h.phase = at[30];
    h.round = at[31];
    return h;
}

}  // namespace

void write(const Header& h, const Key& key, std::span<const std::uint8_t> payload,
           std::uint8_t* into) {
    into[0] = static_cast<std::uint8_t>(h.kind);
    into[1] = h.importance;
    put(into + 2, h.source);
    put(into + 4, h.job);
    put(into + 8, h.step);
    put(into + 12, h.tensor);
    put(into + 14, h.layer);
    put(into + 16, h.offset);
    put(into + 20, h.length);
    put(into + 24, h.sequence);
    put(into + 28, static_cast<std::uint16_t>(payload.size()));
    into[30] = h.phase;
    into[31] = h.round;
    put(into + 32, checksum(key, into, payload));
}

Verdict read(std::span<const std::uint8_t> message, std::uint32_t job, const Key& key,
             Header& header) {
    if (message.size() < HEADER_BYTES) return Verdict::TRUNCATED;
    const Header h = parsed(message.data());
    if (HEADER_BYTES + h.payload > message.size()) return Verdict::TRUNCATED;
    const auto kind = static_cast<std::uint8_t>(h.kind);
    if (kind == 0 || kind > LAST_KIND || HEADER_BYTES + h.payload != message.size())
        return Verdict::MALFORMED;
    if (h.job != job) return Verdict::OTHER_JOB;
    if (checksum(key, message.data(), message.subspan(HEADER_BYTES)) !=
        get<std::uint64_t>(message.data() + SIGNED_BYTES))
        return Verdict::FORGED;
    header = h;
    return Verdict::FINE;
}

std::size_t message_bytes(std::span<const std::uint8_t> stream) {
    if (stream.size() < HEADER_BYTES) return 0;
    return HEADER_BYTES + get<std::uint16_t>(stream.data() + 28);
}

std::vector<std::uint8_t> payload_of(const Report& report, std::span<const Named> named) {
    std::vector<std::uint8_t> bytes(sizeof report + named.size_bytes());
    std::memcpy(bytes.data(), &report, sizeof report);
    if (!named.empty()) std::memcpy(bytes.data() + sizeof report, named.data(), named.size_bytes());
    return bytes;
}

bool read(std::span<const std::uint8_t> payload, Report& report, std::vector<Named>& named) {
    if (payload.size() < sizeof report || (payload.size() - sizeof report) % sizeof(Named) != 0)
        return false;
    std::memcpy(&report, payload.data(), sizeof report);
    named.resize((payload.size() - sizeof report) / sizeof(Named));
    if (!named.empty())
        std::memcpy(named.data(), payload.data() + sizeof report, payload.size() - sizeof report);
    return true;
}

}  // namespace paceline::wire
