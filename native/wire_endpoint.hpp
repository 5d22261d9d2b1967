// One rank of the transport. `post` begins to send and receive tensors; `wait` goes on with all that
// is open until something has arrived. In between it sleeps.
//
//    receiver                         sender
//    READY (tensors, rate)     ->
//                              <-     DATA DATA DATA ... at its rate, tensor after tensor
//    REPORT (what came)        ->
//                              <-     DONE, of each tensor
//    BITMAP (what came)        ->     sends again what is missing, then DONE ...
//    STOP (tensors, rate)      ->
//
// READY, BITMAP and STOP go on the reliable channel, and once more as datagrams, which are quicker
// where TCP waits for a lost segment; DONE goes there when it is said again. All may come twice.
//
// In wire_endpoint.cpp: what is open, and the loop; wire_hearing.cpp: messages that come;
// wire_receiving.cpp: what a receiver says; wire_sending.cpp: what a sender sends.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "wire_channel.hpp"
#include "wire_lane.hpp"
#include "wire_orders.hpp"
#include "wire_watch.hpp"

namespace paceline::wire {

class Endpoint {
public:
    Endpoint(const std::string& host, std::uint16_t port, Identity identity, Settings settings);

    std::uint16_t port() const { return mesh_->port(); }
    void connect(const std::map<std::uint16_t, sockaddr_in>& peers, Time timeout_ns);
    // What an order lies in must stay where it is until `wait` says that it has ended.
    void post(const Orders& orders);
    // Until something has arrived since the last call, or nothing is open; with `all`, until the
    // latter. `interrupt` is called now and then, and may throw. After an error nothing is open.
    Progress wait(bool all, const std::function<void()>& interrupt);
    void close();
    const Counters& counters() const { return counters_; }

private:
    using Peer = std::uint16_t;

    void post_receive(const ReceiveOrder& order, std::uint32_t step,
                      const std::shared_ptr<std::size_t>& budget, Time now);
    void post_send(const SendOrder& order, std::uint32_t step, Time now);
    Lane& lane_of(Peer peer, const Id& id, const char* way);
    void require_length(Peer peer, const Outgoing& outgoing, std::uint32_t expected) const;
    void drop();
    void go_on(bool all, const std::function<void()>& interrupt);
    bool all_ended() const;
    void require_life(Time now) const;
    Time next(Time now) const;
    void sleep(Time now, Time until);
    bool receiving() const;

    void hear(Time now);
    void hear_channels(Time now);
    void handle(std::span<const std::uint8_t> message, bool marked, int channel, Time now);
    void act(const Header& header, std::span<const std::uint8_t> payload, bool marked, Time now);
    void take(Lane& lane, const Header& header, std::span<const std::uint8_t> payload, bool marked,
              Time now);
    void told(Peer peer, Lane& lane, const Header& header, std::span<const std::uint8_t> payload,
              Time now);
    void ready(Peer peer, Lane& lane, const Named& named);
    void stop(Peer peer, Lane& lane, const Named& named);
    void done(Lane& lane, const Header& header, std::span<const std::uint8_t> payload, Time now);

    void judge(Time now);
    void finish(Peer peer, Lane& lane, const Id& id, Incoming& incoming, Time now);
    void answer(Peer peer, const Lane& lane, const Id& id, Incoming& incoming);
    void ask(Peer peer, Lane& lane, Time now);
    void report(Time now);
    Report granted(const Lane& lane, Time now) const;
    std::size_t open_lanes() const;

    void send(Time now);
    void share_our_link();
    bool send_unit(Lane& lane, Outgoing& outgoing, Time now);
    void probe(Peer peer, Outgoing& outgoing, Time now);
    enum Way { DATAGRAM = 1, RELIABLE = 2, BOTH = 3 };
    void tell(Peer peer, Header header, std::span<const std::uint8_t> payload, int ways);
    void name(Peer peer, Kind kind, std::span<const Named> named, int ways, Time now);

    Settings settings_;
    Identity identity_;
    Counters counters_;
    std::unique_ptr<Mesh> mesh_;
    std::unique_ptr<DatagramSocket> socket_;
    std::map<Peer, Lane> lanes_;
    Progress progress_;
    std::uint32_t posts_ = 0, newest_step_ = 0;
    std::size_t sending_ = 0;      // lanes on which we send
    bool shares_changed_ = false;  // some sender ended: others may have its share
    Time blocked_until_ = 0;
    Watch watch_;
    std::vector<Packet> unit_;
};

sockaddr_in address_of(const std::string& host, std::uint16_t port);

}  // namespace paceline::wire
