// Binds native/levels: spans in, what to draw of them out.
#include "levels.hpp"

#include <utility>

#include "columns.hpp"

namespace nb = nanobind;
using namespace paceline;

namespace {

struct BoundLevels {  // keeps what a Levels looks at
    Column<Op> lane;
    Column<std::uint8_t> kind;
    Column<Time> start, end;
    Levels levels;

    BoundLevels(std::size_t lanes, Column<Op> l, Column<std::uint8_t> k, Column<Time> s,
                Column<Time> e)
        : lane(l), kind(k), start(s), end(e),
          levels(lanes, {view(lane), view(kind), view(start), view(end), {}, {}}) {}
};

nb::tuple draw(const BoundLevels& bound, Column<Op> lanes, Time from, Time to,
               std::int32_t pixels) {
    Drawn out;
    {
        nb::gil_scoped_release unlocked;
        bound.levels.draw({from, to, pixels}, view(lanes), out);
    }
    return nb::make_tuple(given(std::move(out.lane)), given(std::move(out.kind)),
                          given(std::move(out.start)), given(std::move(out.end)),
                          given(std::move(out.busy)), given(std::move(out.ops)),
                          given(std::move(out.span)));
}

}  // namespace

void bind_levels(nb::module_& m) {
    nb::class_<BoundLevels>(m, "Levels")
        .def(nb::init<std::size_t, Column<Op>, Column<std::uint8_t>, Column<Time>, Column<Time>>(),
             nb::arg("lanes"), nb::arg("lane"), nb::arg("kind"), nb::arg("start"), nb::arg("end"))
        .def("draw", &draw, nb::arg("lanes"), nb::arg("from_ns"), nb::arg("to_ns"),
             nb::arg("pixels"));
}
