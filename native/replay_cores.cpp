#include "replay_cores.hpp"

#include <algorithm>
#include <cmath>

namespace paceline {
namespace {

constexpr double kNothing = 1e-6;    // NOTHING_NS in cores.py
constexpr double kMostLoad = 0.95;   // MOST_LOAD in hosts.py

Time end_of(double left, double rate, Time since) {
    return since + (left > kNothing ? static_cast<Time>(std::ceil(left / rate)) : 0);
}

// From one settling to the next the order hardly changes, so each moves a few places at most.
void sort_again(std::vector<std::pair<double, Op>>& wants) {
    for (std::size_t i = 1; i < wants.size(); ++i) {
        const auto moved = wants[i];
        std::size_t at = i;
        for (; at > 0 && moved < wants[at - 1]; --at) wants[at] = wants[at - 1];
        wants[at] = moved;
    }
}

}  // namespace

CoreRates::CoreRates(const Program& p, const Sharing* sharing, Agenda& agenda)
    : p_(p), sharing_(*sharing), hosts_(*sharing->hosts), agenda_(agenda), flows_(sharing->flows),
      jobs_(hosts_.machine.size()), machines_(hosts_.cores.size()),
      threads_(hosts_.cores.size(), 0), runs_(p.instance_of.empty() ? 0 : p.ops, 0),
      seen_(p.members.rows(), 0) {
    for (std::size_t m = 0; m < machines_.size(); ++m) machines_[m].cores = hosts_.cores[m];
}

void CoreRates::touch(Op machine) {
    if (machines_[machine].touched) return;
    machines_[machine].touched = true;
    touched_.push_back(machine);
}

void CoreRates::begin(Op op, Time now, Time dur) {
    if (flows_ && sharing_.carried[op]) return flows_->begin(op, now);
    const double length = static_cast<double>(std::max<Time>(dur, 1));
    const double want = hosts_.works[op] ? 1.0 : static_cast<double>(hosts_.cpu[op]) / length;
    const double beside = static_cast<double>(hosts_.beside[op]) / length;
    const double wait = static_cast<double>(hosts_.turn[op]) / length;
    const double left = static_cast<double>(dur);
    job(op) = {left, 1.0, want, beside, wait, 1.0, 1.0, now};
    agenda_.set(p_.lane_of[op], end_of(left, 1.0, now));
    machine(op).running.emplace_back(want, op);
    const Op on = hosts_.machine[p_.lane_of[op]];
    threads_[on] += hosts_.works[op];
    if (!runs_.empty()) runs_[op] = 1;
    touch(on);
}

void CoreRates::take_ended(Time now, std::vector<Op>& ended) {
    for (const Op op : ended) {
        auto& running = machine(op).running;
        running.erase(std::find_if(running.begin(), running.end(),
                                   [&](const auto& entry) { return entry.second == op; }));
        const Op on = hosts_.machine[p_.lane_of[op]];
        threads_[on] -= hosts_.works[op];
        touch(on);
        if (!runs_.empty()) runs_[op] = 0;
        if (instance(op) != kNone)  // whoever was held up by it may speed up
            for (const Op member : p_.members.row(instance(op)))
                touch(hosts_.machine[p_.lane_of[member]]);
    }
    if (flows_ && flows_->next_end() == now) flows_->take_ended(now, ended);
}

void CoreRates::settle(Time now) {
    if (flows_) settle_flows(now);
    for (const Op m : touched_) share(machines_[m], threads_[m]);
    ++settlings_;
    for (const Op m : touched_) set_rates(machines_[m], now);
    for (const Op m : touched_) machines_[m].touched = false;
    touched_.clear();
}

void CoreRates::settle_flows(Time now) {
    if (!hosts_.loaded) return flows_->settle(now);
    flows_->see(threads_);
    flows_->settle(now);
    const auto loads = flows_->loads();
    for (std::size_t m = 0; m < machines_.size(); ++m) {
        if (machines_[m].load == loads[m]) continue;
        machines_[m].load = loads[m];
        touch(static_cast<Op>(m));
    }
}

// What each op of a machine would progress at, were it alone in its instance.
void CoreRates::share(Machine& m, std::int32_t at_work) {
    const double threads = static_cast<double>(at_work) / m.cores;  // on each core
    const double busy = threads >= 1 ? 1.0 : 0.0;
    const double left = 1 - std::min(m.load / m.cores, kMostLoad);
    for (auto& [want, op] : m.running) {
        Job& at = job(op);
        at.pace = 1 / (1 + at.wait * threads * busy);
        want = (at.want + at.beside * busy) * at.pace;
    }
    sort_again(m.running);
    double whole = m.cores;
    auto to_serve = static_cast<double>(m.running.size());
    for (const auto& [want, op] : m.running) {
        const double got = std::min(want, whole / to_serve--);
        whole -= got;
        Job& at = job(op);
        at.own = want != 0 ? left * at.pace * got / want : at.pace;
    }
}

void CoreRates::set_rates(const Machine& m, Time now) {
    for (const auto& [want, op] : m.running) {
        const Op joined = instance(op);
        if (joined == kNone) {
            change(op, job(op).own, now);
        } else if (seen_[joined] != settlings_) {
            seen_[joined] = settlings_;
            const double rate = slowest(joined);
            for (const Op member : p_.members.row(joined))
                if (runs_[member]) change(member, rate, now);
        }
    }
}

double CoreRates::slowest(Op instance) {
    double rate = 1.0;
    for (const Op member : p_.members.row(instance))
        if (runs_[member]) rate = std::min(rate, job(member).own);
    return rate;
}

void CoreRates::change(Op op, double rate, Time now) {
    Job& at = job(op);
    if (rate == at.rate) return;
    at.left -= static_cast<double>(now - at.since) * at.rate;
    at.since = now;
    at.rate = rate;
    agenda_.set(p_.lane_of[op], end_of(at.left, rate, now));
}

}  // namespace paceline
