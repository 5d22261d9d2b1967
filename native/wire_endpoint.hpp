// One rank of the transport. `exchange` sends and receives the tensors of one phase with all peers
// and returns once every one has arrived, or is done without; in between it sleeps.
//
//    receiver                         sender
//    READY (rate, window)      ->
//                              <-     DATA DATA DATA ... at its rate
//    REPORT (what came)        ->
//                              <-     DONE
//    BITMAP (what came)        ->     sends again what is missing, then DONE ...
//    STOP                      ->
//
// READY, DONE, BITMAP and STOP go on the reliable channel, and once more as datagrams, which are
// quicker where TCP waits for a lost segment; all of them may come twice.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "wire_channel.hpp"
#include "wire_transfer.hpp"

namespace paceline::wire {

struct Settings {
    std::size_t packet_bytes = 1432;   // of values: with all headers an Ethernet frame of 1,514
    double link_bits_per_s = 1e9;      // ours, which senders to us share, and what we send
    std::uint32_t window_bytes = 48'000;  // that may be under way to us at once
    std::uint32_t segments = 1;        // packets that the kernel may be handed as one
    std::uint32_t buffer_bytes = 4 << 20;
    std::uint8_t control_tos = 0;      // class of service of all that is not data
    Time retry_ns = 4'000'000;
    Time timeout_ns = 60'000'000'000;
    Control control;
    Patience patience;
};

struct SendOrder {
    std::uint16_t peer = 0, tensor = 0, layer = 0;
    std::uint8_t phase = 0;
    std::span<const std::uint8_t> data, tos, important;
};

struct ReceiveOrder {
    std::uint16_t peer = 0, tensor = 0;
    std::uint8_t phase = 0;
    std::span<std::uint8_t> into;
    std::size_t budget_bytes = 0;
};

struct Outcome {
    std::size_t missing_bytes = 0;
    Time ended_ns = 0;
    std::vector<std::uint8_t> flags;  // a byte per packet: 1 has arrived
};

struct Orders {
    std::uint32_t step = 0;
    std::size_t budget_bytes = SIZE_MAX;  // that all its tensors together may lose
    std::vector<SendOrder> sends;
    std::vector<ReceiveOrder> receives;
};

class Endpoint {
public:
    Endpoint(const std::string& host, std::uint16_t port, Identity identity, Settings settings);

    std::uint16_t port() const { return mesh_->port(); }
    void connect(const std::map<std::uint16_t, sockaddr_in>& peers, Time timeout_ns);
    // `interrupt` is called now and then, and may throw.
    std::vector<Outcome> exchange(const Orders& orders, const std::function<void()>& interrupt);
    void close() {
        mesh_->close_all();
        peers_.clear();
    }
    const Counters& counters() const { return counters_; }

private:
    void post(const Orders& orders, Time now);
    bool ended() const;
    void hear(Time now);
    void hear_channels(Time now);
    void handle(std::span<const std::uint8_t> message, bool marked, int channel, Time now);
    void act(const Header& header, std::span<const std::uint8_t> payload, bool marked, Time now);
    void ready(const Header& header, std::span<const std::uint8_t> payload, Time now);
    void done(const Header& header, std::span<const std::uint8_t> payload, Time now);
    void judge(Time now);
    void finish(Incoming& incoming, Time now);
    void ask(Incoming& incoming, Time now);
    void report(Time now);
    void send(Time now);
    bool send_unit(Outgoing& outgoing, Time now);
    void probe(Outgoing& outgoing, Time now);
    void require_life(Time now) const;
    Time next(Time now) const;
    void sleep(Time now, Time until);
    static void gather_arrivals();

    enum Way { DATAGRAM = 1, RELIABLE = 2, BOTH = 3 };
    void tell(const Id& to, Header header, std::span<const std::uint8_t> payload, int ways);
    Report granted(const Incoming& incoming) const;
    std::size_t frame_bytes() const {
        return settings_.packet_bytes + HEADER_BYTES + FRAME_BYTES;
    }
    std::uint32_t window(std::size_t shares) const;

    Settings settings_;
    Identity identity_;
    Counters counters_;
    std::unique_ptr<Mesh> mesh_;
    std::unique_ptr<DatagramSocket> socket_;
    std::map<std::uint16_t, sockaddr_in> peers_;

    std::map<Id, Incoming> incoming_;
    std::map<Id, Outgoing> outgoing_;
    std::map<Id, Outcome> outcomes_;
    std::map<Id, std::pair<std::uint32_t, Report>> early_;  // READY before we had an order
    std::set<Id> finished_;
    std::deque<Id> finished_in_order_;
    std::size_t step_budget_ = 0, arriving_ = 0, sending_ = 0;
    Time blocked_until_ = 0;
    std::vector<Packet> unit_;
};

sockaddr_in address_of(const std::string& host, std::uint16_t port);

}  // namespace paceline::wire
