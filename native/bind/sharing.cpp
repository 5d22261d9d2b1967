// Binds what ops of a replay share: contention, flows, shaped links, and the cores of machines.
#include "sharing.hpp"

#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "replay_shaped.hpp"

namespace nb = nanobind;
using namespace paceline;

namespace {

class PythonFlows final : public Flows {  // a `Pace` written in Python
  public:
    explicit PythonFlows(nb::object pace) : pace_(std::move(pace)) {}

    void begin(Op op, Time now) override {
        nb::gil_scoped_acquire locked;
        pace_.attr("begin")(op, now);
    }
    void settle(Time now) override {
        nb::gil_scoped_acquire locked;
        pace_.attr("settle")(now);
    }
    Time next_end() override {
        nb::gil_scoped_acquire locked;
        const nb::object end = pace_.attr("next_end")();
        return end.is_none() ? kNever : nb::cast<Time>(end);
    }
    void take_ended(Time now, std::vector<Op>& ended) override {
        nb::gil_scoped_acquire locked;
        for (const nb::handle op : pace_.attr("take_ended")(now)) ended.push_back(nb::cast<Op>(op));
    }

    void see(std::span<const std::int32_t> threads) override {
        nb::gil_scoped_acquire locked;
        pace_.attr("see")(std::vector<std::int32_t>(threads.begin(), threads.end()));
    }
    std::span<const double> loads() const override {
        nb::gil_scoped_acquire locked;
        loads_ = nb::cast<std::vector<double>>(pace_.attr("loads")());
        return loads_;
    }

  private:
    nb::object pace_;
    mutable std::vector<double> loads_;
};

void make_hosts(HostColumns* self, Column<Op> machine, Column<double> cores,
                Column<std::uint8_t> works, Column<Time> cpu, Column<Time> turn,
                Column<Time> beside, bool loaded) {
    new (self) HostColumns{machine, cores, works, cpu, turn, beside, {}};
    self->hosts = {view(self->machine), view(self->cores), view(self->works),
                   view(self->cpu), view(self->turn), view(self->beside), loaded};
}

void make_shared(Shared* self, Column<std::uint8_t> sort, Column<Op> device,
                 Column<std::int64_t> slowed, Column<std::uint8_t> carried, nb::object pace,
                 nb::object hosts) {
    new (self) Shared{sort, device, slowed, carried, std::move(pace), std::move(hosts), {}, {}};
    Flows* flows = nullptr;
    if (nb::isinstance<Flows>(self->pace)) {
        flows = nb::cast<Flows*>(self->pace);
    } else if (!self->pace.is_none()) {
        self->python = std::make_unique<PythonFlows>(self->pace);
        flows = self->python.get();
    }
    self->sharing = {view(self->sort), view(self->device), view(self->slowed),
                     view(self->carried), flows};
    if (!self->hosts.is_none())
        self->sharing.hosts = &nb::cast<HostColumns*>(self->hosts)->hosts;
}

void make_table(ShapedTable* self, Column<Op> message_of_op, Column<double> size,
                Column<std::int64_t> link_ptr, Column<Op> link, Column<double> capacity,
                Column<double> burst, Column<Op> source, Column<Op> target, Column<Op> other,
                Column<double> cores) {
    new (self) ShapedTable{copied(message_of_op), copied(size),     copied(link_ptr),
                           copied(link),          copied(capacity), copied(burst),
                           copied(source),        copied(target),   copied(other),
                           copied(cores)};
}

nb::object next_end(Flows& flows) {
    const Time end = flows.next_end();
    return end == kNever ? nb::none() : nb::cast(end);
}

std::vector<Op> take_ended(Flows& flows, Time now) {
    std::vector<Op> ended;
    flows.take_ended(now, ended);
    return ended;
}

void bind_shaped(nb::module_& m) {
    nb::class_<ShapedTable>(m, "ShapedTable")
        .def("__init__", &make_table, nb::arg("message_of_op"), nb::arg("size"),
             nb::arg("link_ptr"), nb::arg("link"), nb::arg("capacity"), nb::arg("burst"),
             nb::arg("source"), nb::arg("target"), nb::arg("other"), nb::arg("cores"));
    nb::class_<ShapedFlows, Flows>(m, "ShapedFlows")
        .def("__init__", [](ShapedFlows* self, const ShapedTable& table, double cpu_ns_per_byte,
                            Time message_ns, Time late_ns, double window_bytes) {
            new (self) ShapedFlows(table, {cpu_ns_per_byte, window_bytes, message_ns, late_ns});
        }, nb::arg("table"), nb::arg("cpu_ns_per_byte"), nb::arg("message_ns"),
             nb::arg("late_ns"), nb::arg("window_bytes"));
}

}  // namespace

void bind_sharing(nb::module_& m) {
    nb::class_<Flows>(m, "Flows")
        .def("begin", &Flows::begin, nb::arg("op"), nb::arg("now_ns"))
        .def("settle", &Flows::settle, nb::arg("now_ns"))
        .def("next_end", &next_end)
        .def("take_ended", &take_ended, nb::arg("now_ns"))
        .def("see", [](Flows& flows, std::vector<std::int32_t> threads) { flows.see(threads); },
             nb::arg("threads"))
        .def("loads", [](const Flows& flows) {
            const auto loads = flows.loads();
            return std::vector<double>(loads.begin(), loads.end());
        });
    nb::class_<HostColumns>(m, "Hosts")
        .def("__init__", &make_hosts, nb::arg("machine"), nb::arg("cores"), nb::arg("works"),
             nb::arg("cpu_ns"), nb::arg("turn_ns"), nb::arg("beside_ns"), nb::arg("loaded"));
    nb::class_<Shared>(m, "Shared")
        .def("__init__", &make_shared, nb::arg("sort"), nb::arg("device"), nb::arg("slowed"),
             nb::arg("carried"), nb::arg("pace").none(), nb::arg("hosts").none())
        .def_prop_ro("goes_back", &Shared::goes_back);
    bind_shaped(m);
}
