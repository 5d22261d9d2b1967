// Binds native/flows: messages over shared links, alone or as the seam to replay.
#include "flows.hpp"

#include <nanobind/stl/vector.h>

#include <vector>

#include "columns.hpp"

namespace nb = nanobind;
using namespace paceline;

namespace {

FlowTable table(const Column<double>& size, const Column<Time>& tail,
                const Column<std::int64_t>& link_ptr, const Column<Op>& link,
                const Column<double>& weight, const Column<double>& capacity) {
    return {copied(size), copied(tail), copied(link_ptr), copied(link), copied(weight),
            copied(capacity)};
}

nb::tuple simulate_flows(const FlowTable& flows, Column<std::int64_t> dep_ptr, Column<Op> dep_src,
                         Column<Time> release) {
    std::vector<Time> start(flows.flows(), -1), end(flows.flows(), -1);
    std::int64_t events = 0;
    {
        nb::gil_scoped_release unlocked;
        const Dag dag{{dep_ptr.data(), dep_ptr.size()},
                      {dep_src.data(), dep_src.size()},
                      {release.data(), release.size()}};
        events = simulate(flows, dag, start, end);
    }
    return nb::make_tuple(given(std::move(start)), given(std::move(end)), events);
}

}  // namespace

void bind_flows(nb::module_& m) {
    nb::class_<FlowTable>(m, "FlowTable");
    m.def("flow_table", &table, nb::arg("size"), nb::arg("tail"), nb::arg("link_ptr"),
          nb::arg("link"), nb::arg("weight"), nb::arg("capacity"));
    m.def("simulate_flows", &simulate_flows, nb::arg("table"), nb::arg("dep_ptr"),
          nb::arg("dep_src"), nb::arg("release"));
    nb::class_<CarriedFlows, Flows>(m, "CarriedFlows")
        .def("__init__", [](CarriedFlows* self, const FlowTable& flows, Column<Op> flow_of_op) {
            new (self) CarriedFlows(flows, copied(flow_of_op));
        }, nb::arg("table"), nb::arg("flow_of_op"));
}
