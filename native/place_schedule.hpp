// Makespans of many small operator graphs on one accelerator: a lower bound and a list schedule.
//
// The same closed forms and the same schedules as paceline/place/hardware/{estimate,schedule}.py,
// which are their definition; a search asks for them by the million.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::place {

// One row an operator; workload w has rows workload[w] .. workload[w + 1], in topological order.
struct Operators {
    std::vector<int32_t> workload;
    std::vector<uint8_t> unit;                          // 0 tensor core, 1 vector core
    std::vector<int64_t> m, k, n, g;
    std::vector<int32_t> after_ptr, after;              // rows within the workload
};

struct Accelerator {
    int64_t cores[2];                                   // by unit
    int64_t width, depth;
    double buffer_elements;
    double element_bytes, bytes_per_s, clock_hz;
};

struct Makespans {
    std::vector<int64_t> lower, greedy;                 // cycles, by workload
};

Makespans makespans(const Operators& operators, const Accelerator& accelerator);

}  // namespace paceline::place
