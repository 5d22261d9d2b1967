// The native core's table of contents: each area binds itself in a file of its own.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_coding(nb::module_& m);
void bind_record(nb::module_& m);
void bind_replay(nb::module_& m);
void bind_sharing(nb::module_& m);
void bind_place(nb::module_& m);
void bind_packets(nb::module_& m);
void bind_flows(nb::module_& m);
void bind_levels(nb::module_& m);
void bind_norm_relu(nb::module_& m);
void bind_wire(nb::module_& m);

NB_MODULE(_core, m) {
    m.doc() = "Paceline's native core: flat arrays in, flat arrays out.";
    m.attr("compiler") = __VERSION__;
    bind_coding(m);
    bind_record(m);
    bind_sharing(m);
    bind_replay(m);  // after bind_sharing, whose Shared it takes
    bind_place(m);
    bind_packets(m);
    bind_levels(m);
    bind_flows(m);  // after bind_sharing, whose Flows it derives from
    bind_norm_relu(m);
    bind_wire(m);
}
