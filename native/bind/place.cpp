// Binds the placement solvers: flat arrays in, plain dictionaries out.
#include <nanobind/stl/string.h>

#include "columns.hpp"
#include "place_ideals.hpp"
#include "place_layers.hpp"
#include "place_schedule.hpp"

namespace nb = nanobind;

namespace {

template <typename T>
std::vector<T> column(nb::handle owner, const char* name) {
    return copied(nb::cast<Column<T>>(owner.attr(name)));
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

nb::object layers(nb::handle o) {
    paceline::place::Layers l;
    l.widths = column<int32_t>(o, "widths");
    l.forward_s = column<double>(o, "forward_s");
    l.backward_s = column<double>(o, "backward_s");
    l.state_bytes = column<double>(o, "state_bytes");
    l.parameter_bytes = column<double>(o, "parameter_bytes");
    l.activation_bytes = column<double>(o, "activation_bytes");
    l.input_bytes = column<double>(o, "input_bytes");
    l.count = static_cast<int>(l.input_bytes.size());
    l.bytes_per_s = nb::cast<double>(o.attr("bytes_per_s"));
    l.memory_bytes = nb::cast<double>(o.attr("memory_bytes"));
    l.devices = nb::cast<int>(o.attr("devices"));
    l.micro_batches = nb::cast<int>(o.attr("micro_batches"));
    l.recompute = nb::cast<bool>(o.attr("recompute"));
    l.beat_s = nb::cast<double>(o.attr("beat_s"));
    paceline::place::LayerPlan plan;
    {
        nb::gil_scoped_release release;
        plan = paceline::place::plan_layers(l);
    }
    if (!plan.feasible) return nb::none();
    nb::list stages;
    for (const auto& s : plan.stages)
        stages.append(
            nb::make_tuple(s.first, s.last, s.width, s.recomputes, s.load_s, s.memory_bytes));
    return nb::make_tuple(plan.seconds, plan.replicas, stages);
}

paceline::place::Operators operators_of(nb::handle o) {
    paceline::place::Operators made;
    made.workload = column<int32_t>(o, "workload");
    made.unit = column<uint8_t>(o, "unit");
    made.m = column<int64_t>(o, "m");
    made.k = column<int64_t>(o, "k");
    made.n = column<int64_t>(o, "n");
    made.g = column<int64_t>(o, "g");
    made.after_ptr = column<int32_t>(o, "after_ptr");
    made.after = column<int32_t>(o, "after");
    return made;
}

paceline::place::Accelerator accelerator_of(nb::handle o) {
    return {{nb::cast<int64_t>(o.attr("tensor_cores")), nb::cast<int64_t>(o.attr("vector_cores"))},
            nb::cast<int64_t>(o.attr("width")),
            nb::cast<int64_t>(o.attr("depth")),
            nb::cast<double>(o.attr("buffer_elements")),
            nb::cast<double>(o.attr("element_bytes")),
            nb::cast<double>(o.attr("bytes_per_s")),
            nb::cast<double>(o.attr("clock_hz"))};
}

nb::list cycles(const std::vector<int64_t>& found) {
    nb::list made;
    for (int64_t value : found) made.append(value);
    return made;
}

nb::tuple schedules(const paceline::place::Operators& operators, nb::handle accelerator) {
    const auto found = paceline::place::makespans(operators, accelerator_of(accelerator));
    return nb::make_tuple(cycles(found.lower), cycles(found.greedy));
}

}  // namespace

void bind_place(nb::module_& m) {
    m.def("place_contiguous", &contiguous, nb::arg("problem"), nb::arg("lower"), nb::arg("upper"),
          nb::arg("ideals"), nb::arg("seconds"), nb::arg("threads"),
          "Least maximum load of a chain of ideals that beats `upper`.");
    m.def("plan_layers", &layers, nb::arg("layers"),
          "(seconds, replicas, stages) of the fastest pipeline of a chain of layers that takes less "
          "than `beat_s`, or None.");
    nb::class_<paceline::place::Operators>(m, "Operators")
        .def_static("of", &operators_of, nb::arg("columns"))
        .def("makespans", &schedules, nb::arg("accelerator"),
             "Cycles of each workload on an accelerator: (lower bounds, list schedules).");
}
