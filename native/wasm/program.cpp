// Exports replay_program: a graph's structure, compiled once.
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "exported.hpp"
#include "replay.hpp"

using namespace paceline;

namespace {

struct GraphTable {
    std::uint32_t ops, edges, lanes, drains;
    const Op *lane, *instance;
    const std::int64_t* dep_ptr;
    const Op* dep_src;
    const std::uint8_t *dep_kind, *discipline;
    const Op *drain_op, *drain_lane;
};

struct ProgramFacts {
    std::uint32_t ops, by_pull, bytes, cycle_size;
    const Op *cycle, *order;  // `order` is empty in a program for events
};

}  // namespace

EXPORTED(allocate) void* allocate(std::size_t bytes) { return ::operator new(bytes); }
EXPORTED(release) void release(void* at) { ::operator delete(at); }

EXPORTED(program_new) Program* program_new(const GraphTable* g, std::uint32_t events) {
    const Structure structure{column(g->lane, g->ops),          column(g->instance, g->ops),
                              column(g->dep_ptr, g->ops + 1),   column(g->dep_src, g->edges),
                              column(g->dep_kind, g->edges),    column(g->discipline, g->lanes),
                              column(g->drain_op, g->drains),   column(g->drain_lane, g->drains)};
    return new Program(compile(structure, events != 0));
}

EXPORTED(program_facts) void program_facts(const Program* p, ProgramFacts* out) {
    *out = {static_cast<std::uint32_t>(p->ops), p->by_pull, static_cast<std::uint32_t>(p->bytes()),
            static_cast<std::uint32_t>(p->cycle.size()), p->cycle.data(), p->order.data()};
}

EXPORTED(program_delete) void program_delete(Program* p) { delete p; }
