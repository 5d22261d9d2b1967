// Binds the trace scanner and the flattening of threads.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "columns.hpp"
#include "flatten.hpp"
#include "kineto.hpp"

namespace nb = nanobind;

namespace {

// Hands a vector to NumPy, without the room that it kept for more.
template <class T>
nb::object array(std::vector<T>&& values) {
    values.shrink_to_fit();
    return given(std::move(values));
}

nb::tuple flatten(Column<int32_t> lane, Column<int64_t> start, Column<int64_t> end,
                  Column<int32_t> cut_lane, Column<int64_t> cut_ns) {
    if (start.size() != lane.size() || end.size() != lane.size() || cut_ns.size() != cut_lane.size())
        throw std::invalid_argument("columns of ranges and of cuts must have one length each");
    paceline::Segments out;
    {
        nb::gil_scoped_release free;
        out = paceline::flatten({lane.data(), start.data(), end.data(), lane.size()},
                                {cut_lane.data(), cut_ns.data(), cut_lane.size()});
    }
    return nb::make_tuple(array(std::move(out.owner)), array(std::move(out.lane)),
                          array(std::move(out.start_ns)), array(std::move(out.end_ns)),
                          array(std::move(out.after_cut)), array(std::move(out.borders)));
}

nb::object outer_ranges(Column<int64_t> ends) {
    return array(paceline::outer_ranges(ends.data(), ends.size()));
}

void feed(paceline::KinetoScan& scan, nb::bytes chunk) {
    const char* data = chunk.c_str();
    const std::size_t size = chunk.size();
    nb::gil_scoped_release free;
    scan.feed(data, size);
}

void finish(paceline::KinetoScan& scan) {
    nb::gil_scoped_release free;
    scan.finish();
}

nb::list texts(const std::vector<std::string>& values) {
    nb::list all;
    for (const auto& text : values) all.append(nb::bytes(text.data(), text.size()));
    return all;
}

nb::tuple ranges(paceline::KinetoScan& scan) {
    auto& r = scan.ranges;
    return nb::make_tuple(
        array(std::move(r.mark)), array(std::move(r.name)), array(std::move(r.category)),
        array(std::move(r.pid)), array(std::move(r.tid)), array(std::move(r.start_ns)),
        array(std::move(r.dur_ns)), array(std::move(r.correlation)), array(std::move(r.external)),
        array(std::move(r.sequence)), array(std::move(r.fwd_thread)), array(std::move(r.record)),
        array(std::move(r.size_bytes)), array(std::move(r.stream)), array(std::move(r.form)));
}

nb::tuple arrows(paceline::KinetoScan& scan) {
    auto& a = scan.arrows;
    return nb::make_tuple(array(std::move(a.mark)), array(std::move(a.id)), array(std::move(a.pid)),
                          array(std::move(a.tid)), array(std::move(a.at_ns)));
}

nb::tuple memory(paceline::KinetoScan& scan) {
    auto& m = scan.memory;
    return nb::make_tuple(array(std::move(m.pid)), array(std::move(m.tid)),
                          array(std::move(m.at_ns)), array(std::move(m.address)),
                          array(std::move(m.delta_bytes)), array(std::move(m.device_type)),
                          array(std::move(m.device)));
}

nb::list details(const paceline::KinetoScan& scan) {
    nb::list all;
    for (const auto& [row, args] : scan.details)
        all.append(nb::make_tuple(row, nb::bytes(args.data(), args.size())));
    return all;
}

}  // namespace

void bind_record(nb::module_& m) {
    m.def("flatten", &flatten, nb::arg("lane"), nb::arg("start_ns"), nb::arg("end_ns"),
          nb::arg("cut_lane"), nb::arg("cut_ns"));
    m.def("outer_ranges", &outer_ranges, nb::arg("ends"));
    nb::class_<paceline::KinetoScan>(m, "KinetoScan")
        .def(nb::init<>())
        .def("feed", &feed)
        .def("finish", &finish)
        .def("ranges", &ranges)
        .def("arrows", &arrows)
        .def("memory", &memory)
        .def("details", &details)
        .def("names", [](const paceline::KinetoScan& s) { return texts(s.names()); })
        .def("forms", [](const paceline::KinetoScan& s) { return texts(s.forms()); })
        .def("metadata", [](const paceline::KinetoScan& s) { return texts(s.metadata); })
        .def("damaged", [](const paceline::KinetoScan& s) { return texts(s.damaged); })
        .def_prop_ro("header",
                     [](const paceline::KinetoScan& s) {
                         return nb::bytes(s.header.data(), s.header.size());
                     })
        .def_ro("whole", &paceline::KinetoScan::whole);
}
