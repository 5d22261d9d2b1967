// What the bindings of replay know of things that ops share.
#pragma once

#include <memory>

#include "columns.hpp"
#include "replay_sharing.hpp"

struct HostColumns {  // keeps what a Hosts looks at
    Column<paceline::Op> machine;
    Column<double> cores;
    Column<std::uint8_t> works;
    Column<paceline::Time> cpu, turn, beside;
    paceline::Hosts hosts;
};

struct Shared {  // keeps what a Sharing looks at
    Column<std::uint8_t> sort;
    Column<paceline::Op> device;
    Column<std::int64_t> slowed;
    Column<std::uint8_t> carried;
    nanobind::object pace, hosts;
    std::unique_ptr<paceline::Flows> python;
    paceline::Sharing sharing;

    bool goes_back() const {
        return !sharing.hosts && (!sharing.flows || sharing.flows->save(0));
    }
};
