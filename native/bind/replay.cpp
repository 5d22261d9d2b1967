// Binds native/replay*: NumPy columns in, NumPy columns out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "columns.hpp"
#include "replay.hpp"
#include "replay_draws.hpp"
#include "replay_live.hpp"
#include "replay_live_events.hpp"
#include "replay_path.hpp"
#include "sharing.hpp"

namespace nb = nanobind;
using namespace paceline;

namespace {

Program compile_graph(Column<Op> lane, Column<Op> instance, Column<std::int64_t> dep_ptr,
                      Column<Op> dep_src, Column<std::uint8_t> dep_kind,
                      Column<std::uint8_t> discipline, Column<Op> drain_op,
                      Column<Op> drain_lane, bool events) {
    nb::gil_scoped_release unlocked;
    return compile({view(lane), view(instance), view(dep_ptr), view(dep_src), view(dep_kind),
                    view(discipline), view(drain_op), view(drain_lane)},
                   events);
}

nb::object order_of(nb::handle program) {  // looks at what the program holds
    const Program& p = nb::cast<const Program&>(program);
    return nb::cast(nb::ndarray<nb::numpy, const Op, nb::ndim<1>>(p.order.data(), {p.order.size()},
                                                                   program));
}

nb::tuple replay_pull(const Program& p, Column<Time> dur) {
    Flat<Time> ready(p.ops), start(p.ops), end(p.ops);
    {
        nb::gil_scoped_release unlocked;
        Timeline out{ready, start, end, {}, {}, {}};
        pull(p, dur.data(), out);
    }
    return nb::make_tuple(given(std::move(ready)), given(std::move(start)), given(std::move(end)));
}

nb::object pairs_of_ops(std::vector<std::pair<Op, Op>> pairs) {  // sorted, flat
    std::sort(pairs.begin(), pairs.end());
    Flat<Op> out(pairs.size() * 2);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        out[2 * i] = pairs[i].first;
        out[2 * i + 1] = pairs[i].second;
    }
    return given(std::move(out));
}

nb::tuple replay_events(const Program& p, Column<Time> dur, Column<std::int32_t> priority,
                        Shared* shared) {
    Flat<Time> ready(p.ops), start(p.ops), end(p.ops);
    Flat<Op> previous(p.ops), order(p.ops);
    std::vector<std::pair<Op, Op>> pairs;
    Op finished = 0;
    {
        nb::gil_scoped_release unlocked;
        for (auto* column : {&ready, &end})  // what tells a stuck replay's ops apart
            std::fill(column->begin(), column->end(), Time{kNone});
        Timeline out{ready, start, end, previous, order, {}};
        finished = run_events(p, dur.data(), priority.data(), out,
                              shared ? &shared->sharing : nullptr);
        pairs = std::move(out.drained);
    }
    return nb::make_tuple(given(std::move(ready)), given(std::move(start)), given(std::move(end)),
                          given(std::move(previous)), given(std::move(order)),
                          pairs_of_ops(std::move(pairs)), finished);
}

nb::object lane_previous(Column<Op> lane, Column<std::uint8_t> discipline) {
    Flat<Op> out(lane.size());
    {
        nb::gil_scoped_release unlocked;
        previous_on_lane(view(lane), view(discipline), out);
    }
    return given(std::move(out));
}

nb::object replay_slack(Column<Op> order, Column<std::int64_t> dep_ptr, Column<Op> dep_src,
                        Column<Op> previous, Column<Op> instance, Column<Op> drained,
                        Column<Time> start, Column<Time> end) {
    Flat<Time> out(start.size());
    {
        nb::gil_scoped_release unlocked;
        slack({view(order), view(dep_ptr), view(dep_src), view(previous), view(instance),
               view(drained), view(start), view(end)},
              out);
    }
    return given(std::move(out));
}

// The last op first, and why each did not start earlier.
nb::tuple replay_path(Column<Op> order, Column<std::int64_t> dep_ptr, Column<Op> dep_src,
                      Column<Op> previous, Column<Op> instance, Column<Op> drained,
                      Column<Time> start, Column<Time> end, Column<Time> ready) {
    std::vector<Op> ops;
    std::vector<std::uint8_t> reasons;
    {
        nb::gil_scoped_release unlocked;
        const Replayed last{view(order),    view(dep_ptr), view(dep_src), view(previous),
                            view(instance), view(drained), view(start),   view(end)};
        const Csr members = members_of(last.instance);
        for (const auto& [op, reason] : CriticalPath(last, view(ready), members).backwards()) {
            ops.push_back(op);
            reasons.push_back(static_cast<std::uint8_t>(reason));
        }
    }
    return nb::make_tuple(given(std::move(ops)), given(std::move(reasons)));
}

Time replay_step(const Program& p, Column<Time> dur) {
    nb::gil_scoped_release unlocked;
    Flat<Time> by_position(p.ops);
    return pull_step(p, dur.data(), by_position.data());
}

nb::tuple live_times(const Live& live) {
    Flat<Time> ready(live.ops()), start(live.ops()), end(live.ops());
    Timeline out{ready, start, end, {}, {}, {}};
    live.times(out);
    return nb::make_tuple(given(std::move(ready)), given(std::move(start)), given(std::move(end)));
}

nb::tuple replay_draws(const Program& p, Column<Time> dur, Column<std::int32_t> priority,
                       Column<std::int64_t> dep_ptr, Column<Op> dep_src,
                       Column<std::int64_t> sample_ptr, Column<Time> samples, bool interpolate,
                       std::uint64_t seed, std::size_t count, int threads, Shared* shared) {
    Draws found;
    {
        nb::gil_scoped_release unlocked;
        found = draw_many(p,
                          {view(dur), view(priority), view(dep_ptr), view(dep_src),
                           {view(sample_ptr), view(samples), interpolate}, seed, threads,
                           shared ? &shared->sharing : nullptr},
                          count);
    }
    return nb::make_tuple(given(std::move(found.step)), given(std::move(found.critical)));
}

template <class Values>
nb::object copied(const Values& values) {
    using Value = std::remove_cv_t<std::remove_reference_t<decltype(values[0])>>;
    return given(Flat<Value>(values.begin(), values.end()));
}

nb::tuple live_columns(const LiveEvents& live) {
    const Past& past = live.past();
    return nb::make_tuple(copied(past.ready),
                          copied(past.start.empty() ? past.ready : past.start), copied(past.end),
                          copied(past.previous), copied(live.order()), pairs_of_ops(past.drained));
}

void bind_live_events(nb::module_& m) {
    nb::class_<LiveEvents>(m, "LiveEvents")
        .def("__init__", [](LiveEvents* self, const Program& p, Column<Time> dur,
                            Column<std::int32_t> priority, const Shared* shared) {
            new (self) LiveEvents(p, view(dur), view(priority), shared ? &shared->sharing : nullptr);
        }, nb::arg("program"), nb::arg("dur_ns"), nb::arg("priority"),
             nb::arg("shared").none() = nb::none(), nb::keep_alive<1, 5>())
        .def("resize", [](LiveEvents& live, Column<Op> ops,
                          Column<Time> dur) { live.resize(view(ops), view(dur)); })
        .def("prioritise", [](LiveEvents& live, Column<Op> ops, Column<std::int32_t> priority) {
            live.prioritise(view(ops), view(priority));
        })
        .def("link", &LiveEvents::link)
        .def("unlink", &LiveEvents::unlink)
        .def("add", &LiveEvents::add, nb::arg("lane"), nb::arg("anchor"), nb::arg("dur_ns"),
             nb::arg("sort"))
        .def("drop", &LiveEvents::drop)
        .def("admit", &LiveEvents::admit)
        .def("withdraw", &LiveEvents::withdraw)
        .def("settle", &LiveEvents::settle, nb::call_guard<nb::gil_scoped_release>())
        .def("deps", [](const LiveEvents& live, Op op) { return copied(live.deps(op)); })
        .def("followers", [](const LiveEvents& live, Op op) { return copied(live.followers(op)); })
        .def("columns", &live_columns)
        .def_prop_ro("step", &LiveEvents::step)
        .def_prop_ro("revisited", &LiveEvents::revisited)
        .def_prop_ro("bytes", &LiveEvents::bytes);
}

}  // namespace

void bind_replay(nb::module_& m) {
    nb::class_<Program>(m, "Program")
        .def_ro("by_pull", &Program::by_pull)
        .def_ro("ops", &Program::ops)
        .def_prop_ro("cycle", [](const Program& p) { return copied(p.cycle); })
        .def_prop_ro("order", &order_of)
        .def_prop_ro("bytes", &Program::bytes)
        .def("pull", &replay_pull, nb::arg("dur_ns"))
        .def("step", &replay_step, nb::arg("dur_ns"))
        .def("events", &replay_events, nb::arg("dur_ns"), nb::arg("priority"),
             nb::arg("shared") = nb::none());
    nb::class_<Live>(m, "Live")
        .def("__init__", [](Live* self, std::shared_ptr<const Program> p,
                            Column<Time> dur) { new (self) Live(std::move(p), view(dur)); })
        .def("resize", [](Live& live, Column<Op> ops,
                          Column<Time> dur) { return live.resize(view(ops), view(dur)); })
        .def("add", &Live::add)
        .def("drop", &Live::drop)
        .def("link", &Live::link)
        .def("unlink", &Live::unlink)
        .def("settle", &Live::settle)
        .def("followers", [](const Live& live, Op op) { return live.followers(op); })
        .def("times", &live_times)
        .def_prop_ro("step", &Live::step)
        .def_prop_ro("bytes", &Live::bytes);
    bind_live_events(m);
    m.def("draws", &replay_draws, nb::arg("program"), nb::arg("dur_ns"), nb::arg("priority"),
          nb::arg("dep_ptr"), nb::arg("dep_src"), nb::arg("sample_ptr"), nb::arg("samples_ns"),
          nb::arg("interpolate"), nb::arg("seed"), nb::arg("count"), nb::arg("threads"),
          nb::arg("shared") = nb::none());
    m.def("compile", &compile_graph);
    m.def("lane_previous", &lane_previous);
    m.def("slack", &replay_slack);
    m.def("critical_path", &replay_path);
}
