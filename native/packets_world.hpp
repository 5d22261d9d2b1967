// The state of one simulation, and what its parts call of each other.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "packets_agenda.hpp"
#include "packets_ports.hpp"

namespace paceline::packets {

enum class State : std::uint8_t { kUnsent, kFlying, kLost, kDone };

struct Flow {  // both ends; what only one kind of sender uses stands apart
    std::int32_t packets, next = 0, lost = 0, resend = 0;
    std::int64_t place;  // of its first packet in the columns of packets
    Time deadline = 0, end = -1;
    std::int32_t count = 0;  // arrived
    std::int64_t sent = 0, missing = 0;
    // windowed
    std::int32_t flying = 0, acked = 0, first = 0, checked = 0, recover = 0, highest = -1;
    std::int32_t timeouts = 0, window_acks = 0, window_marks = 0, window_end = 0, cut_end = 0;
    std::int32_t expected = 0;
    double window = 0, threshold = 0, alpha = 1.0;
    bool probing = false, finished = false;
    // paced
    double rate = 0;
    Time cut_until = 0, rise_at = 0, heard = 0;
    std::int32_t seen = 0, seen_marked = 0, unheard = 0;
    bool doubling = true, pacing = true, stopped = false, asked = false, checking = false;
};

class World {
  public:
    World(const Fabric&, const Policy&, const FlowColumns&);
    Result run(Time until_ns);

  private:
    // the fabric: packets.cpp
    void enqueue(std::int32_t packet);
    void transmit(std::int32_t port);
    void free(std::int32_t port);
    void arrive(std::int32_t packet);
    bool put(Port&, std::int32_t packet);
    bool put_remaining(Port&, std::int32_t packet);
    std::int32_t take(Port&);
    std::int32_t take_remaining(Port&);
    void mark(Port&, Packet&, std::int64_t backlog);
    void grow(Port&, std::int64_t size);
    void drop(std::int32_t packet);
    std::int64_t room(const Port&) const;
    Time sending_ns(std::int64_t size, bool spine_rate) const;
    std::int32_t next_port(const Packet&) const;
    std::int32_t leaf(std::int32_t host) const { return leaf_of_[host]; }
    std::int32_t source(const Packet&) const;
    std::int32_t target(const Packet&) const;
    std::uint8_t spine(std::int32_t flow, std::int32_t src);
    void send(Packet packet);
    Packet control(std::int32_t flow, Kind) const;
    std::int32_t data_bytes(std::int32_t flow, std::int32_t seq) const;
    bool waits_for_nic(std::int32_t flow);
    void wake(std::int32_t host);
    std::int32_t choose(Flow&);
    Flow& flow(std::int32_t row) { return flow_[row]; }

    // windowed flows: packets_windowed.cpp
    void start_windowed(std::int32_t flow);
    void arrived_windowed(const Packet&);
    void acknowledged(const Packet&);
    void receive_windowed(const Packet&);
    void fill(std::int32_t flow);
    std::int32_t settle(Flow&, std::int32_t seq);
    void react(Flow&, std::int32_t newly, const Packet&);
    void follow_marks(Flow&, std::int32_t newly, const Packet&);
    void find_losses(Flow&);
    void lose(Flow&, std::int32_t seq);
    void timer_windowed(std::int32_t flow);
    void time_out(std::int32_t flow);

    // paced flows: packets_paced.cpp
    void pace(std::int32_t flow);
    std::int32_t send_paced(std::int32_t flow, std::int32_t seq);
    void arrived_paced(const Packet&);
    void reported(Flow&, const Packet&);
    void receive_paced(const Packet&);
    void slow_down(Flow&);
    void probe(std::int32_t flow);
    void probed(std::int32_t flow);
    void timer_paced(std::int32_t flow);
    void check(std::int32_t flow);
    void finish(std::int32_t flow);

    const Fabric fabric_;
    const Policy policy_;
    const FlowColumns& columns_;
    Agenda agenda_;
    Time now_ = 0;
    std::uint64_t crossed_ = 0;  // cables, by packets
    std::int64_t open_;
    std::vector<Port> ports_;
    std::vector<std::int64_t> pool_used_;  // of each switch
    std::vector<Packet> packets_;
    std::vector<std::int32_t> unused_;  // rows of packets_
    std::vector<Flow> flow_;
    std::vector<State> state_;      // of each packet of each flow
    std::vector<std::uint8_t> got_;
    std::vector<std::int32_t> leaf_of_;
    std::vector<std::uint64_t> turn_;  // of each host
    std::vector<std::array<std::deque<std::int32_t>, kPriorities>> waiting_;
    std::vector<std::int32_t> waiting_count_;
    std::array<std::array<Time, 2>, 2> usual_ns_;  // full packet, control; host, spine rate
    Result result_;
};

}  // namespace paceline::packets
