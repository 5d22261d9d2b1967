// What is open at an endpoint, and the loop that goes on with it.
#include "wire_endpoint.hpp"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <utility>

namespace paceline::wire {
namespace {

constexpr Time SHORTEST_SLEEP_NS = 50'000, INTERRUPT_NS = 200'000'000;
constexpr long GATHER_NS = 150'000;
constexpr std::uint32_t STEPS_KEPT = 8;

// What arrives in the next moment is read with what is here: a core shared with others has few turns.
void gather_arrivals() {
    const timespec moment{0, GATHER_NS};
    ppoll(nullptr, 0, &moment, nullptr);
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
    settings_.control.frame_bytes = settings.frame_bytes();
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
    lanes_.clear();
    for (const auto& [peer, address] : peers)
        lanes_.try_emplace(peer, address, settings_.control, now_ns());
    mesh_->connect(peers, timeout_ns);
}

void Endpoint::close() {
    mesh_->close_all();
    lanes_.clear();
}

void Endpoint::post(const Orders& orders) {
    const Time now = now_ns();
    const auto budget = std::make_shared<std::size_t>(orders.budget_bytes);
    ++posts_;
    newest_step_ = std::max(newest_step_, orders.step);
    for (auto& [peer, lane] : lanes_)
        std::erase_if(lane.early,
                      [&](const auto& e) { return e.first.step + STEPS_KEPT < orders.step; });
    try {
        for (const auto& order : orders.receives) post_receive(order, orders.step, budget, now);
        for (const auto& order : orders.sends) post_send(order, orders.step, now);
    } catch (const Fault&) {
        drop();
        throw;
    }
}

void Endpoint::drop() {
    for (auto& [peer, lane] : lanes_) {
        lane.incoming.clear();
        lane.outgoing.clear();
    }
    progress_ = {};
}

void Endpoint::post_receive(const ReceiveOrder& order, std::uint32_t step,
                            const std::shared_ptr<std::size_t>& budget, Time now) {
    const Id id{step, order.tensor, order.phase};
    Lane& lane = lane_of(order.peer, id, "receive from");
    if (lane.idle()) lane.heard = now;
    const Wanted wanted{order.into, settings_.packet_bytes, order.budget_bytes, budget, posts_};
    if (lane.knows(id) || !lane.incoming.try_emplace(id, wanted).second)
        throw Fault(what(id) + " was asked for twice");
    lane.posted = now;
    lane.next_ready = lane.ready_wait = 0;
}

void Endpoint::post_send(const SendOrder& order, std::uint32_t step, Time now) {
    const Id id{step, order.tensor, order.phase};
    Lane& lane = lane_of(order.peer, id, "send to");
    if (lane.idle()) lane.heard = now;
    const Parcel parcel{order.data, order.tos, order.important, settings_.packet_bytes,
                        order.layer};
    const auto [at, fresh] = lane.outgoing.try_emplace(id, id, parcel);
    if (!fresh) throw Fault(what(id) + " was to be sent twice");
    const auto told = lane.early.find(id);
    if (told == lane.early.end()) return;
    require_length(order.peer, at->second, told->second);
    at->second.begin();
    lane.early.erase(told);
}

Lane& Endpoint::lane_of(Peer peer, const Id& id, const char* way) {
    const auto at = lanes_.find(peer);
    if (at == lanes_.end())
        throw Fault("no rank " + std::to_string(peer) + " to " + way + ": " + what(id));
    return at->second;
}

void Endpoint::require_length(Peer peer, const Outgoing& out, std::uint32_t expected) const {
    if (expected != out.parcel.data.size())
        throw Fault("rank " + std::to_string(peer) + " expects " + std::to_string(expected) +
                    " bytes of " + what(out.id) + ", and " +
                    std::to_string(out.parcel.data.size()) + " are to be sent");
}

Progress Endpoint::wait(bool all, const std::function<void()>& interrupt) {
    try {
        go_on(all, interrupt);
    } catch (...) {
        drop();
        throw;
    }
    return std::exchange(progress_, {});
}

void Endpoint::go_on(bool all, const std::function<void()>& interrupt) {
    Time now = now_ns(), checked = now;
    while (true) {
        hear(now);
        judge(now);
        report(now);
        send(now);
        if (all_ended() || (!all && !progress_.arrived.empty())) return;
        require_life(now);
        sleep(now, next(now));
        if (receiving()) gather_arrivals();
        now = now_ns();
        if (now - checked > INTERRUPT_NS) {
            interrupt();
            checked = now;
        }
    }
}

bool Endpoint::all_ended() const {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& l) { return l.second.idle(); }) &&
           std::all_of(mesh_->channels().begin(), mesh_->channels().end(),
                       [](const auto& c) { return c.second.out.empty() || c.second.closed; });
}

bool Endpoint::receiving() const { return open_lanes() > 0; }

// A peer that is gone, or silent for too long, while something of it or for it is open.
void Endpoint::require_life(Time now) const {
    for (const auto& [peer, lane] : lanes_) {
        if (lane.idle()) continue;
        const auto channel = mesh_->channels().find(peer);
        const bool receives = !lane.incoming.empty();
        const Id& id = receives ? lane.incoming.begin()->first : lane.outgoing.begin()->first;
        const std::string who = "rank " + std::to_string(peer) + " (" + name_of(lane.address) + ")";
        const std::string was = what(id) + " was " + (receives ? "received from it" : "sent to it");
        if (channel == mesh_->channels().end() || channel->second.closed)
            throw PeerLost(who + " ended while " + was);
        if (now - lane.heard > settings_.timeout_ns)
            throw PeerLost(who + " has been silent for " +
                           std::to_string(settings_.timeout_ns / 1'000'000) + " ms while " + was);
    }
}

// When something is to be done even if nothing arrives.
Time Endpoint::next(Time now) const {
    Time soonest = now + INTERRUPT_NS;
    for (const auto& [peer, lane] : lanes_) {
        for (const auto& [id, in] : lane.incoming)
            soonest = std::min(
                soonest, watch_.when(in.next(settings_.patience, lane.arrivals.tally())));
        if (!lane.incoming.empty()) soonest = std::min(soonest, lane.next_ready);
        if (lane.arrivals.unreported > 0) soonest = std::min(soonest, lane.arrivals.due);
        const Outgoing* first = nullptr;
        for (const auto& [id, out] : lane.outgoing) {
            if (out.state == Outgoing::State::PROBING) soonest = std::min(soonest, out.next_probe);
            if (out.state == Outgoing::State::SENDING && !first) first = &out;
        }
        if (!first) continue;
        const std::size_t count = std::min<std::size_t>(first->left(), settings_.segments);
        // Two units at a time, so that it wakes half as often.
        const Time due = lane.pacer.next(2 * count * settings_.frame_bytes(), lane.sequence, now);
        soonest = std::min(soonest, std::max(due, blocked_until_));
    }
    return soonest;
}

void Endpoint::sleep(Time now, Time until) {
    std::vector<pollfd> watched{{socket_->fd(), POLLIN, 0}};
    for (const auto& [peer, channel] : mesh_->channels())
        if (!channel.closed)
            watched.push_back({channel.fd,
                               static_cast<short>(POLLIN | (channel.out.empty() ? 0 : POLLOUT)),
                               0});
    const Time wait = std::max(until - now, SHORTEST_SLEEP_NS);
    watch_.sleeps(now + wait);
    const timespec patience{wait / 1'000'000'000, wait % 1'000'000'000};
    ppoll(watched.data(), watched.size(), &patience, nullptr);
}

}  // namespace paceline::wire
