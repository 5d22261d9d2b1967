// When each lane's running op ends: a tree of minima over lanes, of which each runs one op at most.
// Setting a lane touches one path of the tree without branches, so it beats a heap of events.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "replay_flows.hpp"

namespace paceline {

class Agenda {
  public:
    explicit Agenda(std::size_t lanes)
        : leaves_(std::bit_ceil(std::max<std::size_t>(lanes, 2))), least_(2 * leaves_, kNever) {}

    Time next() const { return least_[1]; }  // kNever where nothing runs

    void set(std::size_t lane, Time end) {
        std::size_t node = lane + leaves_;
        least_[node] = end;
        while (node > 1) {
            end = std::min(end, least_[node ^ 1]);
            node >>= 1;
            least_[node] = end;
        }
    }

    Time of(std::size_t lane) const { return least_[lane + leaves_]; }
    void clear() { std::fill(least_.begin(), least_.end(), kNever); }

    std::size_t first() const {  // the lowest lane that ends next
        std::size_t node = 1;
        while (node < leaves_) node = 2 * node + (least_[2 * node] != least_[1]);
        return node - leaves_;
    }

  private:
    std::size_t leaves_;
    std::vector<Time> least_;
};

}  // namespace paceline
