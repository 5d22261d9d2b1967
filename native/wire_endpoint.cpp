#include "wire_endpoint.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <limits>

namespace paceline::wire {
namespace {

constexpr Time NEVER = std::numeric_limits<Time>::max();
constexpr Time REPORT_NS = 1'000'000, LONGEST_WAIT_NS = 100'000'000, SHORTEST_SLEEP_NS = 50'000;
constexpr long GATHER_NS = 150'000;
constexpr Time BLOCKED_NS = 1'000'000, INTERRUPT_NS = 200'000'000;
constexpr std::size_t REMEMBERED = 4096;

std::string what(const Id& id) {
    return "tensor " + std::to_string(id.tensor) + " of step " + std::to_string(id.step) +
           " (phase " + std::to_string(id.phase) + ")";
}

Id id_of(const Header& h) { return {h.source, h.step, h.tensor, h.phase}; }

std::span<const std::uint8_t> bytes_of(const Report& report) {
    return {reinterpret_cast<const std::uint8_t*>(&report), sizeof report};
}

}  // namespace

sockaddr_in address_of(const std::string& host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
        throw Fault("'" + host + "' is no IPv4 address; give one such as 10.0.0.1");
    return address;
}

Endpoint::Endpoint(const std::string& host, std::uint16_t port, Identity identity,
                   Settings settings)
    : settings_(settings), identity_(identity) {
    constexpr int TRIES = 16;
    for (int attempt = 0; !socket_; ++attempt) {  // a free port of TCP may be taken on UDP
        mesh_ = std::make_unique<Mesh>(address_of(host, port), identity, counters_);
        try {
            socket_ = std::make_unique<DatagramSocket>(address_of(host, mesh_->port()),
                                                       settings.segments, settings.buffer_bytes,
                                                       counters_);
        } catch (const Fault&) {
            if (port != 0 || attempt == TRIES) throw;
        }
    }
}

void Endpoint::connect(const std::map<std::uint16_t, sockaddr_in>& peers, Time timeout_ns) {
    peers_ = peers;
    mesh_->connect(peers, timeout_ns);
}

std::vector<Outcome> Endpoint::exchange(const Orders& orders,
                                        const std::function<void()>& interrupt) {
    Time now = now_ns(), checked = now;
    post(orders, now);
    while (true) {
        hear(now);
        judge(now);
        report(now);
        send(now);
        if (ended()) break;
        require_life(now);
        sleep(now, next(now));
        if (arriving_ > 0) gather_arrivals();
        now = now_ns();
        if (now - checked > INTERRUPT_NS) {
            interrupt();
            checked = now;
        }
    }
    std::vector<Outcome> found;
    for (const auto& r : orders.receives)
        found.push_back(std::move(outcomes_[Id{r.peer, orders.step, r.tensor, r.phase}]));
    return found;
}

// Takes the orders over; what an exchange that failed had left is dropped.
void Endpoint::post(const Orders& orders, Time now) {
    incoming_.clear();
    outgoing_.clear();
    outcomes_.clear();
    sending_ = 0;
    std::erase_if(early_, [&](const auto& e) { return e.first.step + 8 < orders.step; });
    step_budget_ = orders.budget_bytes;
    for (const auto& r : orders.receives) {
        const Id id{r.peer, orders.step, r.tensor, r.phase};
        if (!peers_.contains(r.peer))
            throw Fault("no rank " + std::to_string(r.peer) + " to receive " + what(id) + " from");
        auto [at, fresh] =
            incoming_.try_emplace(id, id, r.into, settings_.packet_bytes, r.budget_bytes);
        if (!fresh || finished_.contains(id)) throw Fault(what(id) + " was asked for twice");
        at->second.last_heard = now;
    }
    for (const auto& s : orders.sends) {
        const Id id{s.peer, orders.step, s.tensor, s.phase};
        if (!peers_.contains(s.peer))
            throw Fault("no rank " + std::to_string(s.peer) + " to send " + what(id) + " to");
        const auto [at, fresh] = outgoing_.try_emplace(id, id, s.data, settings_.packet_bytes,
                                                       settings_.control, now);
        if (!fresh) throw Fault(what(id) + " was to be sent twice");
        Outgoing& out = at->second;
        out.layer = s.layer;
        out.tos = s.tos;
        out.important = s.important;
        if (const auto told = early_.find(id); told != early_.end()) {
            if (told->second.first != s.data.size())
                throw Fault("rank " + std::to_string(id.peer) + " expects " +
                            std::to_string(told->second.first) + " bytes of " + what(id) +
                            ", and " + std::to_string(s.data.size()) + " are to be sent");
            out.pacer.grant(static_cast<double>(told->second.second.bits_per_s),
                            told->second.second.window);
            out.state = Outgoing::State::SENDING;
            early_.erase(told);
        }
    }
    arriving_ = incoming_.size();
}

bool Endpoint::ended() const {
    return arriving_ == 0 &&
           std::all_of(outgoing_.begin(), outgoing_.end(),
                       [](const auto& o) { return o.second.state == Outgoing::State::ENDED; }) &&
           std::all_of(mesh_->channels().begin(), mesh_->channels().end(),
                       [](const auto& c) { return c.second.out.empty() || c.second.closed; });
}

void Endpoint::hear(Time now) {
    constexpr int BATCHES = 16;  // then others get their turn
    for (int i = 0; i < BATCHES; ++i) {
        const auto found = socket_->receive();
        if (found.empty()) break;
        for (const Datagram& datagram : found) handle(datagram.bytes, datagram.marked, -1, now);
    }
    hear_channels(now);
}

void Endpoint::hear_channels(Time now) {
    for (auto& [peer, channel] : mesh_->channels()) {
        channel.flush();
        channel.fill();
        std::size_t at = 0;
        while (true) {
            const auto rest = std::span<const std::uint8_t>(channel.in).subspan(at);
            const std::size_t bytes = message_bytes(rest);
            if (bytes == 0 || bytes > rest.size()) break;
            handle(rest.first(bytes), false, peer, now);
            at += bytes;
        }
        channel.in.erase(channel.in.begin(), channel.in.begin() + static_cast<std::ptrdiff_t>(at));
    }
}

void Endpoint::handle(std::span<const std::uint8_t> message, bool marked, int channel, Time now) {
    Header header;
    switch (read(message, identity_.job, identity_.key, header)) {
        case Verdict::TRUNCATED: ++counters_.truncated; return;
        case Verdict::MALFORMED: ++counters_.malformed; return;
        case Verdict::OTHER_JOB: ++counters_.other_job; return;
        case Verdict::FORGED: ++counters_.forged; return;
        case Verdict::FINE: break;
    }
    if (channel >= 0 && header.source != channel) {
        ++counters_.malformed;
        return;
    }
    act(header, message.subspan(HEADER_BYTES), marked, now);
}

void Endpoint::act(const Header& h, std::span<const std::uint8_t> payload, bool marked, Time now) {
    const Id id = id_of(h);
    if (h.kind == Kind::READY) return ready(h, payload, now);
    if (h.kind == Kind::DONE) return done(h, payload, now);
    if (h.kind == Kind::DATA) {
        ++counters_.received;
        counters_.marked += marked;
        const auto at = incoming_.find(id);
        if (at == incoming_.end() || at->second.ended) {
            ++counters_.stale;
            return;
        }
        if (at->second.unreported == 0) at->second.report_due = now + REPORT_NS;
        switch (at->second.take(h, payload, marked, now)) {
            case Took::FRESH: ++counters_.fresh; break;
            case Took::DUPLICATE: ++counters_.duplicate; break;
            case Took::MISFIT: ++counters_.misfit; break;
        }
        return;
    }
    const auto at = outgoing_.find(id);
    if (at == outgoing_.end()) return;
    at->second.last_heard = now;
    if (h.kind == Kind::STOP) at->second.state = Outgoing::State::ENDED;
    if (h.kind == Kind::BITMAP) at->second.repair(h.round, payload);
    Report told;
    if (h.kind == Kind::REPORT && read(payload, told)) at->second.pacer.report(told, now);
}

void Endpoint::ready(const Header& h, std::span<const std::uint8_t> payload, Time now) {
    const Id id = id_of(h);
    Report told;
    if (!read(payload, told)) return;
    const auto at = outgoing_.find(id);
    if (at == outgoing_.end()) {
        if (early_.size() < REMEMBERED) early_[id] = {h.length, told};
        return;
    }
    Outgoing& out = at->second;
    out.last_heard = now;
    if (h.length != out.data.size())
        throw Fault("rank " + std::to_string(id.peer) + " expects " + std::to_string(h.length) +
                    " bytes of " + what(id) + ", and " + std::to_string(out.data.size()) +
                    " are to be sent");
    if (out.state != Outgoing::State::WAITING) return;
    out.pacer.grant(static_cast<double>(told.bits_per_s), told.window);
    out.state = out.due.empty() ? Outgoing::State::PROBING : Outgoing::State::SENDING;
}

void Endpoint::done(const Header& h, std::span<const std::uint8_t> payload, Time now) {
    const Id id = id_of(h);
    if (const auto at = incoming_.find(id); at != incoming_.end() && !at->second.ended) {
        at->second.done(h.round, payload, now);
    } else if (finished_.contains(id)) {  // our STOP was lost
        Header stop;
        stop.kind = Kind::STOP;
        tell(id, stop, {}, DATAGRAM);
    }
}

// Ends what is complete or may be done without, asks for what is not.
void Endpoint::judge(Time now) {
    for (auto& [id, in] : incoming_) {
        if (in.ended) continue;
        if (in.enough(settings_.patience, step_budget_, now)) {
            finish(in, now);
        } else if (in.owes_answer(settings_.patience, now)) {
            Header bitmap;
            bitmap.kind = Kind::BITMAP;
            bitmap.round = in.round();
            in.answered(now);
            tell(id, bitmap, in.bitmap(), BOTH);
        } else {
            ask(in, now);
        }
    }
}

void Endpoint::finish(Incoming& in, Time now) {
    in.ended = true;
    --arriving_;
    step_budget_ -= std::min(step_budget_, in.missing_bytes());
    counters_.early_stops += in.missing_bytes() > 0;
    outcomes_[in.id()] = {in.missing_bytes(), now, in.flags()};
    finished_.insert(in.id());
    finished_in_order_.push_back(in.id());
    if (finished_in_order_.size() > REMEMBERED) {
        finished_.erase(finished_in_order_.front());
        finished_in_order_.pop_front();
    }
    Header stop;
    stop.kind = Kind::STOP;
    tell(in.id(), stop, {}, BOTH);
    for (auto& [id, other] : incoming_)  // its share of the link goes to the others, at once
        if (!other.ended && other.last_heard > 0) other.report_due = now;
}

// READY, until the first packet comes.
void Endpoint::ask(Incoming& in, Time now) {
    if (in.report().received > 0 || now < in.next_ready) return;
    Header header;
    header.kind = Kind::READY;
    header.length = static_cast<std::uint32_t>(in.bytes());
    const bool first = in.ready_wait == 0;
    in.ready_wait = first ? settings_.retry_ns : std::min(2 * in.ready_wait, LONGEST_WAIT_NS);
    in.next_ready = now + in.ready_wait;
    const Report report = granted(in);
    tell(in.id(), header, bytes_of(report), first ? BOTH : DATAGRAM);
}

void Endpoint::report(Time now) {
    const std::uint32_t often = std::clamp<std::uint32_t>(window(arriving_) / 3, 1, 4);
    for (auto& [id, in] : incoming_) {
        const bool due = in.report_due > 0 && now >= in.report_due;
        if (in.ended || in.report().received == 0 || (in.unreported < often && !due)) continue;
        Header header;
        header.kind = Kind::REPORT;
        in.unreported = 0;
        in.report_due = 0;
        const Report report = granted(in);
        tell(id, header, bytes_of(report), DATAGRAM);
    }
}

Report Endpoint::granted(const Incoming& in) const {
    Report report = in.report();
    const std::size_t shares = std::max<std::size_t>(arriving_, 1);
    report.bits_per_s = static_cast<std::uint64_t>(settings_.link_bits_per_s / shares);
    report.window = window(shares);
    return report;
}

std::uint32_t Endpoint::window(std::size_t shares) const {
    const std::size_t packets =
        settings_.window_bytes / frame_bytes() / std::max<std::size_t>(shares, 1);
    return static_cast<std::uint32_t>(std::max<std::size_t>(packets, 2));
}

void Endpoint::send(Time now) {
    std::size_t sending = 0;
    for (const auto& [id, out] : outgoing_) sending += out.state == Outgoing::State::SENDING;
    if (sending != sending_ && sending > 0)
        for (auto& [id, out] : outgoing_)
            out.pacer.limit(settings_.link_bits_per_s / sending, window(sending));
    sending_ = sending;
    bool more = now >= blocked_until_;
    while (more) {  // one unit each in turn, so that none waits for another's burst
        more = false;
        for (auto& [id, out] : outgoing_)
            if (out.state == Outgoing::State::SENDING) more |= send_unit(out, now);
        more &= now >= blocked_until_;
    }
    for (auto& [id, out] : outgoing_)
        if (out.state == Outgoing::State::PROBING && now >= out.next_probe) probe(out, now);
}

bool Endpoint::send_unit(Outgoing& out, Time now) {
    const std::size_t count = std::min<std::size_t>(out.left(), settings_.segments);
    const std::size_t frames = count * frame_bytes();
    if (now < blocked_until_ || !out.pacer.may_send(frames, out.sequence, now)) return false;
    unit_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        unit_[i].payload = out.bytes(i);
        unit_[i].tos = out.service(i);
        write(out.header(identity_.rank, identity_.job, i), identity_.key, unit_[i].payload,
              unit_[i].head.data());
    }
    const std::size_t went = socket_->send(peers_.at(out.id.peer), unit_);
    if (went < count) blocked_until_ = now + BLOCKED_NS;
    if (went == 0) return false;
    if (out.round > 0) counters_.sent_again += went;
    out.pacer.sent(went * frame_bytes(), now);
    out.advance(went);
    return true;
}

// DONE, until the receiver answers.
void Endpoint::probe(Outgoing& out, Time now) {
    Header header;
    header.kind = Kind::DONE;
    header.round = out.round;
    header.sequence = out.sequence;
    const auto important = packed_bits(out.important);
    tell(out.id, header, important, out.told ? DATAGRAM : BOTH);
    out.told = true;
    out.probe_wait = out.probe_wait == 0
                         ? settings_.retry_ns
                         : std::min(out.probe_wait + out.probe_wait / 2, LONGEST_WAIT_NS);
    out.next_probe = now + out.probe_wait;
}

void Endpoint::tell(const Id& to, Header header, std::span<const std::uint8_t> payload, int ways) {
    header.source = identity_.rank;
    header.job = identity_.job;
    header.step = to.step;
    header.tensor = to.tensor;
    header.phase = to.phase;
    Packet packet;
    packet.payload = payload;
    packet.tos = settings_.control_tos;
    write(header, identity_.key, payload, packet.head.data());
    const bool fits = payload.size() <= settings_.packet_bytes;
    if ((ways & DATAGRAM) && fits) socket_->send(peers_.at(to.peer), {&packet, 1});
    if ((ways & RELIABLE) || !fits) {
        auto& channel = mesh_->channels().at(to.peer);
        std::vector<std::uint8_t> whole(packet.head.begin(), packet.head.end());
        whole.insert(whole.end(), payload.begin(), payload.end());
        channel.push(whole);
    }
}

// A peer that is gone, or silent for too long, while something of it or for it is open.
void Endpoint::require_life(Time now) const {
    const auto check = [&](const Id& id, Time heard, const char* way) {
        const auto channel = mesh_->channels().find(id.peer);
        const std::string who = "rank " + std::to_string(id.peer) + " (" +
                                name_of(peers_.at(id.peer)) + ")";
        if (channel == mesh_->channels().end() || channel->second.closed)
            throw PeerLost(who + " ended while " + what(id) + " was " + way + " it");
        if (now - heard > settings_.timeout_ns)
            throw PeerLost(who + " has been silent for " +
                           std::to_string(settings_.timeout_ns / 1'000'000) + " ms while " +
                           what(id) + " was " + way + " it");
    };
    for (const auto& [id, in] : incoming_)
        if (!in.ended) check(id, in.last_heard, "received from");
    for (const auto& [id, out] : outgoing_)
        if (out.state != Outgoing::State::ENDED) check(id, out.last_heard, "sent to");
}

// When something is to be done even if nothing arrives.
Time Endpoint::next(Time now) const {
    Time soonest = now + INTERRUPT_NS;
    for (const auto& [id, in] : incoming_) {
        if (in.ended) continue;
        soonest = std::min(soonest, in.next(settings_.patience, step_budget_));
        if (in.report().received == 0) soonest = std::min(soonest, in.next_ready);
        if (in.report_due > 0) soonest = std::min(soonest, in.report_due);
    }
    for (const auto& [id, out] : outgoing_) {
        if (out.state == Outgoing::State::PROBING) soonest = std::min(soonest, out.next_probe);
        if (out.state != Outgoing::State::SENDING) continue;
        const std::size_t count = std::min<std::size_t>(out.left(), settings_.segments);
        // Two units at a time, so that it wakes half as often.
        const Time due = out.pacer.next(2 * count * frame_bytes(), out.sequence, now);
        soonest = std::min(soonest, std::max(due, blocked_until_));
    }
    return soonest;
}

// What arrives in the next moment is read with what is here: a core shared with others has few turns.
void Endpoint::gather_arrivals() {
    const timespec moment{0, GATHER_NS};
    ppoll(nullptr, 0, &moment, nullptr);
}

void Endpoint::sleep(Time now, Time until) {
    std::vector<pollfd> watched{{socket_->fd(), POLLIN, 0}};
    for (const auto& [peer, channel] : mesh_->channels())
        if (!channel.closed)
            watched.push_back({channel.fd,
                               static_cast<short>(POLLIN | (channel.out.empty() ? 0 : POLLOUT)),
                               0});
    const Time wait = std::max(until - now, SHORTEST_SLEEP_NS);
    const timespec patience{wait / 1'000'000'000, wait % 1'000'000'000};
    ppoll(watched.data(), watched.size(), &patience, nullptr);
}

}  // namespace paceline::wire
