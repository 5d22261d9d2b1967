#include "place_layers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline::place {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Planner {
  public:
    explicit Planner(const Layers& layers)
        : l_(layers), n_(layers.count),
          devices_(std::min(layers.devices,
                            n_ * *std::max_element(layers.widths.begin(), layers.widths.end()))),
          best_(static_cast<size_t>(n_ + 1) * (devices_ + 1) * (n_ + 1), kNever),
          chosen_(best_.size()) {
        for (const auto* column : {&l_.forward_s, &l_.backward_s, &l_.state_bytes,
                                   &l_.activation_bytes, &l_.parameter_bytes})
            sums_.push_back(prefix(*column));
        for (int k = 0; k <= devices_; ++k) {
            const int copies = std::min(l_.devices / (k + 1), l_.micro_batches);
            rounds_.push_back(copies ? (l_.micro_batches + copies - 1) / copies : kNever);
        }
    }
    LayerPlan solve();

  private:
    enum Column { Forward, Backward, State, Activation, Parameter };
    struct Choice { int16_t last = 0, width = 0; bool recomputes = false; };

    std::vector<double> prefix(const std::vector<double>& column) const {
        std::vector<double> sums;
        for (size_t w = 0; w < l_.widths.size(); ++w) {
            sums.push_back(0);
            for (int i = 0; i < n_; ++i) sums.push_back(sums.back() + column[w * n_ + i]);
        }
        return sums;
    }
    double sum(Column column, size_t w, int first, int last) const {
        const double* row = &sums_[column][w * (n_ + 1)];
        return row[last] - row[first];
    }
    size_t at(int layer, int devices, int stages) const {
        return (static_cast<size_t>(layer) * (n_ + 1) + stages) * (devices_ + 1) + devices;
    }
    // Inputs and output gradients arrive over the link before the stage can use them.
    double transfers(int first, int last) const {
        return ((first ? l_.input_bytes[first] : 0) + (last < n_ ? l_.input_bytes[last] : 0)) /
               l_.bytes_per_s;
    }
    double memory(size_t w, int first, int last, int stages, bool recomputes) const {
        const double live = sum(Activation, w, first, last);
        const double stash = recomputes ? l_.input_bytes[first] : live;
        return sum(State, w, first, last) + live + (stages - 1) * stash;
    }
    double load(size_t w, int first, int last, bool recomputes) const {
        return sum(Forward, w, first, last) * (recomputes ? 2 : 1) + sum(Backward, w, first, last) +
               transfers(first, last);
    }
    // Load of a stage, infinite where memory forbids it; `recomputes` says how it fits.
    double stage(size_t w, int first, int last, int stages, bool& recomputes) const;
    void extend(int first, int last, size_t w, int stages);
    void finish(LayerPlan& found, int last, size_t w, int stages) const;
    LayerPlan trace(const LayerPlan& head, int devices, int stages) const;

    // Stages from here on, on at most k devices, are followed to the front by one stage at least:
    // the whole then takes this many rounds or more.
    double least_rounds(int k, int stages) const { return rounds_[k] + stages; }

    const Layers& l_;
    int n_, devices_;
    std::vector<double> rounds_;
    std::vector<double> best_;
    std::vector<Choice> chosen_;
    std::vector<std::vector<double>> sums_;
};

double Planner::stage(size_t w, int first, int last, int stages, bool& recomputes) const {
    recomputes = false;
    if (memory(w, first, last, stages, false) > l_.memory_bytes) {
        recomputes = l_.recompute && stages > 1;
        if (!recomputes || memory(w, first, last, stages, true) > l_.memory_bytes) return kNever;
    }
    return load(w, first, last, recomputes);
}

// One more stage, layers [first, last) on widths[w] devices, before the `stages - 1` after it.
void Planner::extend(int first, int last, size_t w, int stages) {
    bool recomputes;
    const double own = stage(w, first, last, stages, recomputes);
    if (own == kNever || own >= best_[at(first, l_.widths[w], stages)]) return;
    const int width = l_.widths[w];
    const Choice choice{static_cast<int16_t>(last), static_cast<int16_t>(w), recomputes};
    const double* after = &best_[at(last, 0, stages - 1)];
    double* here = &best_[at(first, width, stages)];
    Choice* chosen = &chosen_[at(first, width, stages)];
    for (int k = 0; k <= devices_ - width; ++k) {
        if (own * least_rounds(k + width, stages) >= l_.beat_s) break;
        const double value = std::max(own, after[k]);
        if (value < here[k]) {
            here[k] = value;
            chosen[k] = choice;
        }
    }
}

// The whole pipeline with a given first stage, whose parameters decide the cost of averaging.
void Planner::finish(LayerPlan& found, int last, size_t w, int stages) const {
    bool recomputes;
    const double own = stage(w, 0, last, stages, recomputes);
    if (own == kNever) return;
    const double limit = found.feasible ? found.seconds : l_.beat_s;
    const double parameters = sum(Parameter, w, 0, last) / l_.bytes_per_s;
    const double* after = &best_[at(last, 0, stages - 1)];
    const int copies = std::min(l_.devices / l_.widths[w], l_.micro_batches);
    const auto rounds_with = [&](int d) { return (l_.micro_batches + d - 1) / d + stages - 1; };
    if (own * rounds_with(std::max(copies, 1)) >= limit) return;
    for (int d = 1; d <= copies; ++d) {
        const int k = std::min(l_.devices / d, devices_) - l_.widths[w];
        const double most = std::max(own, after[k]);
        const double rounds = rounds_with(d);
        const double seconds = most * rounds + 4.0 * (d - 1) / d * parameters;
        if (most == kNever || seconds >= (found.feasible ? found.seconds : l_.beat_s)) continue;
        found = {true, seconds, most, d, {}};
        found.stages.push_back({0, last, l_.widths[w], recomputes, own,
                                memory(w, 0, last, stages, recomputes)});
        found = trace(found, k, stages - 1);
    }
}

LayerPlan Planner::solve() {
    for (int k = 0; k <= devices_; ++k) best_[at(n_, k, 0)] = 0;
    for (int first = n_ - 1; first > 0; --first)
        for (int last = first + 1; last <= n_; ++last)
            for (size_t w = 0; w < l_.widths.size(); ++w)
                for (int stages = 1; stages <= n_ - first; ++stages) extend(first, last, w, stages);
    LayerPlan found;
    for (int last = 1; last <= n_; ++last)
        for (size_t w = 0; w < l_.widths.size(); ++w)
            for (int stages = 1; stages <= n_ - last + 1; ++stages) finish(found, last, w, stages);
    return found;
}

LayerPlan Planner::trace(const LayerPlan& head, int devices, int stages) const {
    LayerPlan plan = head;
    for (int first = head.stages.front().last; stages > 0; --stages) {
        const Choice& c = chosen_[at(first, devices, stages)];
        plan.stages.push_back({first, c.last, l_.widths[c.width], c.recomputes,
                               load(c.width, first, c.last, c.recomputes),
                               memory(c.width, first, c.last, stages, c.recomputes)});
        devices -= l_.widths[c.width];
        first = c.last;
    }
    return plan;
}

}  // namespace

LayerPlan plan_layers(const Layers& layers) { return Planner(layers).solve(); }

}  // namespace paceline::place
