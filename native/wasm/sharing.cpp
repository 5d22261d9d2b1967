// Exports what ops of a replay share: contention, links (shaped, or max-min), cores of machines.
// The arrays of a sharing are looked at as long as it lives; links take copies of theirs.
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "exported.hpp"
#include "flows.hpp"
#include "replay_shaped.hpp"
#include "replay_sharing.hpp"

using namespace paceline;

namespace {

struct HostsTable {
    std::uint32_t ops, lanes, machines, loaded;
    const Op* machine;
    const double* cores;
    const std::uint8_t* works;
    const Time *cpu, *turn, *beside;
};

struct SharingTable {
    std::uint32_t ops, lanes, devices;
    const std::uint8_t* sort;
    const Op* device;
    const std::int64_t* slowed;
    const std::uint8_t* carried;
    Flows* flows;             // or none
    const HostsTable* hosts;  // or none
};

struct ShapedColumns {  // of ShapedTable, and its Shaping
    std::uint32_t ops, messages, crossed, links, machines;
    const Op* message_of_op;
    const double* size;
    const std::int64_t* link_ptr;
    const Op* link;
    const double *capacity, *burst;
    const Op *source, *target;  // where there are machines
    const Op* other;
    const double* cores;
    const double *cpu_ns_per_byte, *window_bytes;  // one each
    const Time *message_ns, *late_ns;
};

struct FlowColumns {  // of FlowTable
    std::uint32_t ops, flows, crossed, links;
    const Op* flow_of_op;
    const double* size;
    const Time* tail;
    const std::int64_t* link_ptr;
    const Op* link;
    const double *weight, *capacity;
};

struct Kept {  // a Sharing, and the hosts that it looks at
    Hosts hosts;
    Sharing sharing;
};

template <class T>
std::vector<T> copied(const T* at, std::size_t size) {
    return {at, at + size};
}

Hosts hosts_of(const HostsTable& t) {
    return {column(t.machine, t.lanes), column(t.cores, t.machines), column(t.works, t.ops),
            column(t.cpu, t.ops),       column(t.turn, t.ops),
            column(t.beside, t.ops),    t.loaded != 0};
}

}  // namespace

EXPORTED(sharing_new) Kept* sharing_new(const SharingTable* t) {
    auto* kept = new Kept;
    kept->sharing = {column(t->sort, t->ops), column(t->device, t->lanes),
                     column(t->slowed, 2 * t->devices), column(t->carried, t->ops), t->flows};
    if (t->hosts) {
        kept->hosts = hosts_of(*t->hosts);
        kept->sharing.hosts = &kept->hosts;
    }
    return kept;
}

EXPORTED(sharing_of) const Sharing* sharing_of(const Kept* kept) { return &kept->sharing; }
EXPORTED(sharing_delete) void sharing_delete(Kept* kept) { delete kept; }

EXPORTED(shaped_new) Flows* shaped_new(const ShapedColumns* t) {
    const std::size_t between = t->machines ? t->messages : 0;
    ShapedTable table{copied(t->message_of_op, t->ops),
                      copied(t->size, t->messages),
                      copied(t->link_ptr, t->messages + 1),
                      copied(t->link, t->crossed),
                      copied(t->capacity, t->links),
                      copied(t->burst, t->links),
                      copied(t->source, between),
                      copied(t->target, between),
                      copied(t->other, t->messages),
                      copied(t->cores, t->machines)};
    return new ShapedFlows(std::move(table), {*t->cpu_ns_per_byte, *t->window_bytes,
                                              *t->message_ns, *t->late_ns});
}

EXPORTED(carried_new) Flows* carried_new(const FlowColumns* t) {
    FlowTable table{copied(t->size, t->flows),      copied(t->tail, t->flows),
                    copied(t->link_ptr, t->flows + 1), copied(t->link, t->crossed),
                    copied(t->weight, t->crossed),  copied(t->capacity, t->links)};
    return new CarriedFlows(std::move(table), copied(t->flow_of_op, t->ops));
}

EXPORTED(flows_delete) void flows_delete(Flows* flows) { delete flows; }
