// Placement by dynamic programming over ideals (predecessor-closed sets) of a forward graph.
//
// A placement is a chain of ideals: {} < I1 < I2 < ... < everything; each difference of two
// neighbours is one device's set. Only the ideals and their immediate sub-ideals are stored: the
// load of a difference is built up while the sub-ideals of one ideal are walked as a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline::place {

// Classes are numbered in a topological order. A hyperedge is one producer with all its readers:
// a set that it cuts pays `weight` once.
struct Problem {
    int classes = 0;
    std::vector<int32_t> edge_source, edge_target;      // forward precedence, source < target
    std::vector<double> accelerator_time, cpu_time, size;
    std::vector<uint8_t> supported;                     // may the class run on an accelerator?
    std::vector<int32_t> pin_start, pins;               // CSR: classes of each hyperedge
    std::vector<double> weight;
    int accelerators = 0, cpus = 0;
    double memory = 0;                                  // per accelerator
    int max_replicas = 1;
    double sync_cost = 0;                               // time to move one unit of size once
    bool total = false;                                 // minimise the sum of loads, not the largest
};

struct Limits {
    int64_t ideals = 0;      // give up above so many
    double seconds = 0;
    double upper_bound = 0;  // only look for better answers
    double lower_bound = 0;  // no answer is better
    int threads = 1;
};

enum class Status : int { Optimal = 0, NothingBetter = 1, TooManyIdeals = 2, OutOfTime = 3 };

struct Stage {
    bool on_cpu = false;
    int replicas = 1;
    double load = 0;
    std::vector<int32_t> classes;
};

struct Answer {
    Status status = Status::NothingBetter;
    double value = 0;
    double lower_bound = 0;  // proven, also when time ran out
    int64_t ideals = 0;
    int64_t pairs = 0;       // nested pairs visited
    std::vector<Stage> stages;
};

Answer place(const Problem& problem, const Limits& limits);

// The lattice of ideals, smallest first, each with its immediate sub-ideals.
class Ideals {
  public:
    Ideals(const Problem& problem, int64_t limit, double seconds);
    bool complete() const { return complete_; }
    bool out_of_time() const { return out_of_time_; }
    int64_t count() const { return static_cast<int64_t>(child_start_.size()) - 1; }
    const std::vector<int32_t>& level_start() const { return level_start_; }
    int32_t first_child(int32_t ideal) const { return child_start_[ideal]; }
    int32_t last_child(int32_t ideal) const { return child_start_[ideal + 1]; }
    int32_t removed(int32_t child) const { return child_class_[child]; }    // ascending per ideal
    int32_t child(int32_t child) const { return child_ideal_[child]; }
    bool contains(int32_t ideal, int32_t member) const {
        return bits_[static_cast<std::size_t>(ideal) * words_ + member / 64] >> (member % 64) & 1;
    }

  private:
    int words_;
    bool complete_ = false, out_of_time_ = false;
    std::vector<uint64_t> bits_;
    std::vector<int32_t> level_start_, child_start_, child_class_, child_ideal_;
};

}  // namespace paceline::place
