// Binds native/wire: an endpoint of the transport, sums of what came, and the parser for its fuzzer.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "columns.hpp"
#include "wire_endpoint.hpp"
#include "wire_reduce.hpp"

namespace nb = nanobind;
using namespace paceline::wire;

namespace {

template <class T>
using Writable = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = Column<std::uint8_t>;

Key key_of(const Bytes& bytes) {
    if (bytes.size() != sizeof(Key)) throw Fault("a job's key has 16 bytes");
    Key key;
    std::memcpy(key.data(), bytes.data(), sizeof key);
    return key;
}

using Sends = std::vector<std::tuple<int, int, int, int, Bytes, Bytes, Bytes>>;
using Receives = std::vector<std::tuple<int, int, int, Writable<std::uint8_t>, std::size_t>>;

Orders orders(std::uint32_t step, std::size_t budget, const Sends& sends,
              const Receives& receives) {
    Orders made{step, budget, {}, {}};
    for (const auto& [peer, tensor, phase, layer, data, tos, important] : sends)
        made.sends.push_back({static_cast<std::uint16_t>(peer), static_cast<std::uint16_t>(tensor),
                              static_cast<std::uint16_t>(layer), static_cast<std::uint8_t>(phase),
                              view(data), view(tos), view(important)});
    for (const auto& [peer, tensor, phase, into, allowed] : receives)
        made.receives.push_back({static_cast<std::uint16_t>(peer),
                                 static_cast<std::uint16_t>(tensor),
                                 static_cast<std::uint8_t>(phase), {into.data(), into.size()},
                                 allowed});
    return made;
}

void post(Endpoint& endpoint, std::uint32_t step, std::size_t budget, const Sends& sends,
          const Receives& receives) {
    endpoint.post(orders(step, budget, sends, receives));
}

nb::tuple wait(Endpoint& endpoint, bool all) {
    Progress found;
    {
        nb::gil_scoped_release unlocked;
        found = endpoint.wait(all, [] {
            nb::gil_scoped_acquire locked;
            if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
    }
    const auto name = [](std::uint16_t peer, const Id& id) {
        return nb::make_tuple(peer, id.step, id.tensor, id.phase);
    };
    nb::list arrived, sent;
    for (Outcome& one : found.arrived)
        arrived.append(nb::make_tuple(name(one.peer, one.id), one.missing_bytes, one.ended_ns,
                                      given(std::move(one.flags))));
    for (const Sent& one : found.sent) sent.append(name(one.peer, one.id));
    return nb::make_tuple(arrived, sent);
}

void meet(Endpoint& endpoint, const std::vector<std::tuple<int, std::string, int>>& peers,
             double timeout_s) {
    std::map<std::uint16_t, sockaddr_in> addresses;
    for (const auto& [rank, host, port] : peers)
        addresses[static_cast<std::uint16_t>(rank)] =
            address_of(host, static_cast<std::uint16_t>(port));
    nb::gil_scoped_release unlocked;
    endpoint.connect(addresses, static_cast<Time>(timeout_s * 1e9));
}

nb::dict counters(const Endpoint& endpoint) {
    const Counters& c = endpoint.counters();
    nb::dict told;
    told["sent"] = c.sent;
    told["sent_bytes"] = c.sent_bytes;
    told["sent_again"] = c.sent_again;
    told["received"] = c.received;
    told["fresh"] = c.fresh;
    told["marked"] = c.marked;
    told["truncated"] = c.truncated;
    told["malformed"] = c.malformed;
    told["other_job"] = c.other_job;
    told["forged"] = c.forged;
    told["stale"] = c.stale;
    told["misfit"] = c.misfit;
    told["duplicate"] = c.duplicate;
    told["strangers"] = c.strangers;
    told["full"] = c.full;
    told["overflowed"] = c.overflowed;
    told["too_big"] = c.too_big;
    told["early_stops"] = c.early_stops;
    return told;
}

nb::object packet(Bytes key, Bytes payload, const std::vector<std::uint32_t>& f) {
    if (f.size() != 12) throw Fault("a header has 12 fields beside its payload");
    Header h;
    h.kind = static_cast<Kind>(f[0]);
    h.importance = static_cast<std::uint8_t>(f[1]);
    h.source = static_cast<std::uint16_t>(f[2]);
    h.job = f[3];
    h.step = f[4];
    h.tensor = static_cast<std::uint16_t>(f[5]);
    h.layer = static_cast<std::uint16_t>(f[6]);
    h.offset = f[7];
    h.length = f[8];
    h.sequence = f[9];
    h.phase = static_cast<std::uint8_t>(f[10]);
    h.round = static_cast<std::uint8_t>(f[11]);
    std::vector<std::uint8_t> bytes(HEADER_BYTES + payload.size());
    write(h, key_of(key), view(payload), bytes.data());
    std::copy_n(payload.data(), payload.size(), bytes.begin() + HEADER_BYTES);
    return given(std::move(bytes));
}

nb::tuple parse(Bytes message, std::uint32_t job, Bytes key) {
    Header h;
    const auto verdict = read(view(message), job, key_of(key), h);
    const std::vector<std::uint32_t> fields{
        static_cast<std::uint32_t>(h.kind), h.importance, h.source, h.job, h.step, h.tensor,
        h.layer, h.offset, h.length, h.sequence, h.phase, h.round};
    return nb::make_tuple(static_cast<int>(verdict), fields);
}

void sum(const std::vector<std::tuple<Column<float>, Bytes>>& parts, std::size_t packet_values,
         Writable<float> into) {
    std::vector<Part> views;
    const std::size_t packets = (into.size() + packet_values - 1) / packet_values;
    for (const auto& [values, flags] : parts) {
        if (values.size() != into.size() || (flags.size() != 0 && flags.size() != packets))
            throw Fault("parts that are added up differ in length");
        views.push_back({view(values), view(flags)});
    }
    nb::gil_scoped_release unlocked;
    add_up(views, packet_values, {into.data(), into.size()});
}

// A receiver of one tensor with time and packets told, for tests of what it takes for lost.
struct Receiving {
    std::vector<std::uint8_t> room;
    std::size_t packet_bytes;
    Incoming incoming;
    Arrivals arrivals;
    Watch watch;
    Patience patience;

    Receiving(std::size_t packets, std::size_t packet_bytes, std::size_t budget_bytes)
        : room(packets * packet_bytes), packet_bytes(packet_bytes),
          incoming({room, packet_bytes, budget_bytes,
                    std::make_shared<std::size_t>(budget_bytes), 1}) {}

    void take(std::uint32_t packet, std::uint32_t sequence) {
        Header h;
        h.offset = static_cast<std::uint32_t>(packet * packet_bytes);
        h.length = static_cast<std::uint32_t>(room.size());
        const std::vector<std::uint8_t> values(packet_bytes, 1);
        if (arrivals.count(sequence, false, 0))
            incoming.take(h, values, arrivals.tally(), watch.time());
    }
    void done(std::uint32_t sequence, std::uint8_t round) {
        Header h;
        h.sequence = sequence;
        h.round = round;
        incoming.done(h, {}, watch.time());
    }
};

struct Simulated {  // a pacer with time and packets told, for tests of its control
    Pacer pacer;
    explicit Simulated(double bits_per_s)
        : pacer(Control{.start_bits_per_s = bits_per_s}, 0) {}
};

}  // namespace

void bind_wire(nb::module_& m) {
    nb::exception<Fault> fault(m, "WireFault", PyExc_RuntimeError);
    nb::exception<PeerLost>(m, "WirePeerLost", fault.ptr());
    nb::class_<Settings>(m, "WireSettings")
        .def(nb::init<>())
        .def_rw("packet_bytes", &Settings::packet_bytes)
        .def_rw("link_bits_per_s", &Settings::link_bits_per_s)
        .def_rw("window_bytes", &Settings::window_bytes)
        .def_rw("segments", &Settings::segments)
        .def_rw("buffer_bytes", &Settings::buffer_bytes)
        .def_rw("control_tos", &Settings::control_tos)
        .def_rw("retry_ns", &Settings::retry_ns)
        .def_rw("timeout_ns", &Settings::timeout_ns)
        .def_prop_rw("settle_ns", [](const Settings& s) { return s.patience.settle_ns; },
                     [](Settings& s, Time v) { s.patience.settle_ns = v; })
        .def_prop_rw("gap_ns", [](const Settings& s) { return s.patience.gap_ns; },
                     [](Settings& s, Time v) { s.patience.gap_ns = v; })
        .def_prop_rw("paced", [](const Settings& s) { return s.control.paced; },
                     [](Settings& s, bool v) { s.control.paced = v; })
        .def_prop_rw("reacts", [](const Settings& s) { return s.control.reacts; },
                     [](Settings& s, bool v) { s.control.reacts = v; })
        .def_prop_rw("headroom", [](const Settings& s) { return s.control.headroom; },
                     [](Settings& s, double v) { s.control.headroom = v; })
        .def_prop_rw("burst", [](const Settings& s) { return s.control.burst; },
                     [](Settings& s, std::uint32_t v) { s.control.burst = v; });
    nb::class_<Endpoint>(m, "WireEndpoint")
        .def("__init__",
             [](Endpoint* self, const std::string& host, int port, int rank, std::uint32_t job,
                Bytes key, const Settings& settings) {
                 new (self) Endpoint(host, static_cast<std::uint16_t>(port),
                                     {static_cast<std::uint16_t>(rank), job, key_of(key)},
                                     settings);
             },
             nb::arg("host"), nb::arg("port"), nb::arg("rank"), nb::arg("job"), nb::arg("key"),
             nb::arg("settings"))
        .def_prop_ro("port", &Endpoint::port)
        .def("connect", &meet, nb::arg("peers"), nb::arg("timeout_s"))
        .def("post", &post, nb::arg("step"), nb::arg("budget_bytes"), nb::arg("sends"),
             nb::arg("receives"))
        .def("wait", &wait, nb::arg("all"))
        .def("close", &Endpoint::close)
        .def("counters", &counters);
    nb::class_<Simulated>(m, "WirePacer")
        .def(nb::init<double>(), nb::arg("bits_per_s"))
        .def("report",
             [](Simulated& s, std::uint32_t highest, std::uint32_t received, std::uint32_t marked,
                Time now) { s.pacer.report({highest, received, marked, 0, 0}, now); },
             nb::arg("highest"), nb::arg("received"), nb::arg("marked"), nb::arg("now_ns"))
        .def("may_send",
             [](Simulated& s, std::size_t bytes, std::uint32_t sent, Time now) {
                 return s.pacer.may_send(bytes, sent, now);
             }, nb::arg("frame_bytes"), nb::arg("sent"), nb::arg("now_ns"))
        .def("sent", [](Simulated& s, std::size_t bytes) { s.pacer.sent(bytes); },
             nb::arg("frame_bytes"))
        .def_prop_ro("bits_per_s", [](const Simulated& s) { return s.pacer.rate(); })
        .def_prop_ro("window", [](const Simulated& s) { return s.pacer.window(); });
    nb::class_<Receiving>(m, "WireReceiving")
        .def(nb::init<std::size_t, std::size_t, std::size_t>(), nb::arg("packets"),
             nb::arg("packet_bytes"), nb::arg("budget_bytes"))
        .def("looks", [](Receiving& r, Time now) { r.watch.looks(now); }, nb::arg("now_ns"))
        .def("left_some", [](Receiving& r) { r.watch.left_some(); })
        .def("sleeps", [](Receiving& r, Time until) { r.watch.sleeps(until); },
             nb::arg("until_ns"))
        .def("take", &Receiving::take, nb::arg("packet"), nb::arg("sequence"))
        .def("done", &Receiving::done, nb::arg("sequence"), nb::arg("round"))
        .def("answered", [](Receiving& r) {
            r.incoming.answered(r.arrivals.tally(), r.watch.time());
        })
        .def_prop_ro("enough", [](const Receiving& r) {
            return r.incoming.enough(r.patience, r.arrivals.tally(), r.watch.time());
        })
        .def_prop_ro("owes_answer", [](const Receiving& r) {
            return r.incoming.owes_answer(r.patience, r.watch.time());
        });
    m.def("wire_packet", &packet, nb::arg("key"), nb::arg("payload"), nb::arg("fields"));
    m.def("wire_parse", &parse, nb::arg("message"), nb::arg("job"), nb::arg("key"));
    m.def("wire_sum", &sum, nb::arg("parts"), nb::arg("packet_values"), nb::arg("into"));
    m.def("wire_magnitudes", [](Column<float> values, std::size_t packet_values) {
        return given(magnitudes(view(values), packet_values));
    }, nb::arg("values"), nb::arg("packet_values"));
    m.def("wire_digest", [](Bytes key, Bytes bytes) { return siphash(key_of(key), view(bytes)); },
          nb::arg("key"), nb::arg("bytes"));
}
