// Binds the placement solvers: flat arrays in, plain dictionaries out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "place_ideals.hpp"

namespace nb = nanobind;

namespace {

template <typename T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T>
std::vector<T> column(nb::handle owner, const char* name) {
    const auto array = nb::cast<Column<T>>(owner.attr(name));
    return {array.data(), array.data() + array.shape(0)};
}

paceline::place::Problem problem_of(nb::handle o) {
    paceline::place::Problem p;
    p.accelerator_time = column<double>(o, "accelerator_time");
    p.cpu_time = column<double>(o, "cpu_time");
    p.size = column<double>(o, "size");
    p.supported = column<uint8_t>(o, "supported");
    p.edge_source = column<int32_t>(o, "edge_source");
    p.edge_target = column<int32_t>(o, "edge_target");
    p.pin_start = column<int32_t>(o, "pin_start");
    p.pins = column<int32_t>(o, "pins");
    p.weight = column<double>(o, "weight");
    p.classes = static_cast<int>(p.size.size());
    p.accelerators = nb::cast<int>(o.attr("accelerators"));
    p.cpus = nb::cast<int>(o.attr("cpus"));
    p.memory = nb::cast<double>(o.attr("memory"));
    p.max_replicas = nb::cast<int>(o.attr("max_replicas"));
    p.sync_cost = nb::cast<double>(o.attr("sync_cost"));
    p.total = nb::cast<bool>(o.attr("total"));
    return p;
}

nb::dict contiguous(nb::handle problem, double lower, double upper, int64_t ideals, double seconds,
                    int threads) {
    const auto p = problem_of(problem);
    paceline::place::Answer answer;
    {
        nb::gil_scoped_release release;
        answer = paceline::place::place(p, {ideals, seconds, upper, lower, threads});
    }
    nb::list stages;
    for (const auto& stage : answer.stages) {
        nb::list classes;
        for (int32_t c : stage.classes) classes.append(c);
        stages.append(nb::make_tuple(stage.on_cpu, stage.replicas, stage.load, classes));
    }
    nb::dict result;
    result["status"] = static_cast<int>(answer.status);
    result["value"] = answer.value;
    result["lower_bound"] = answer.lower_bound;
    result["ideals"] = answer.ideals;
    result["pairs"] = answer.pairs;
    result["stages"] = stages;
    return result;
}

}  // namespace

void bind_place(nb::module_& m) {
    m.def("place_contiguous", &contiguous, nb::arg("problem"), nb::arg("lower"), nb::arg("upper"),
          nb::arg("ideals"), nb::arg("seconds"), nb::arg("threads"),
          "Least maximum load of a chain of ideals that beats `upper`.");
}
