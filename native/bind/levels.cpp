// Binds native/levels: spans in, what to draw of them out.
#include "levels.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace paceline;

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<const T> view(const Column<T>& column) {
    return {column.data(), column.size()};
}

template <class T>
nb::object given(std::vector<T> values) {
    auto* raw = new std::vector<T>(std::move(values));
    nb::capsule owner(raw, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(raw->data(), {raw->size()}, owner));
}

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
