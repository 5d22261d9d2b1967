// Going back in time for flows that share links: what is under way at an instant between rounds.
#include <algorithm>
#include <limits>

#include "flows.hpp"

namespace paceline {
namespace {

struct SavedCarried final : SavedFlows {
    SharedLinks::Saved links;
    std::vector<Op> ops;  // that have begun and not ended, ascending

    bool equals(const SavedFlows& other) const override {
        const auto& carried = static_cast<const SavedCarried&>(other);
        return ops == carried.ops && links == carried.links;
    }
    std::size_t bytes() const override {
        return ops.size() * sizeof(Op) + links.flows.size() * sizeof(links.flows[0]) +
               links.after.size() * sizeof(links.after[0]);
    }
};

}  // namespace

SharedLinks::Saved SharedLinks::save(Time now) const {
    std::vector<Op> sending, waiting;  // for their last bytes; for the end of their tails
    for (Op flow = 0; flow < static_cast<Op>(state_.size()); ++flow)
        if (state_[flow].sending)
            sending.push_back(flow);
        else if (state_[flow].end != kNever)
            waiting.push_back(flow);
    std::sort(sending.begin(), sending.end(),
              [&](Op a, Op b) { return state_[a].turn < state_[b].turn; });
    Saved out;
    for (const auto* flows : {&sending, &waiting})
        for (const Op flow : *flows) {
            const State& s = state_[flow];
            out.flows.push_back({flow, s.sending, s.left, s.rate, s.since - now, s.end - now});
        }
    for (const Op flow : sending)
        out.after.insert(out.after.end(), after_.begin() + t_.link_ptr[flow],
                         after_.begin() + t_.link_ptr[flow + 1]);
    return out;
}

void SharedLinks::restore(const Saved& saved, Time now) {
    std::fill(state_.begin(), state_.end(), State{});
    for (auto& on : on_) on.clear();
    due_ = {};
    touched_.clear();
    any_began_ = false;
    left_rate_ = std::numeric_limits<double>::infinity();
    turn_ = 0;
    auto after = saved.after.begin();
    for (const auto& [flow, sending, left, rate, since, end] : saved.flows) {
        state_[flow] = {left, rate, now + since, now + end, sending, ++turn_};
        due_.push({now + end, flow, sending});
        if (!sending) continue;
        for (auto i = t_.link_ptr[flow]; i < t_.link_ptr[flow + 1]; ++i) {
            auto& on = on_[t_.link[i]];
            place_[i] = static_cast<std::int64_t>(on.size());
            on.push_back(i);
            after_[i] = *after++;
        }
    }
}

std::unique_ptr<SavedFlows> CarriedFlows::save(Time now) const {
    auto out = std::make_unique<SavedCarried>();
    out->links = links_.save(now);
    for (const auto& members : members_)
        out->ops.insert(out->ops.end(), members.begin(), members.end());
    std::sort(out->ops.begin(), out->ops.end());
    return out;
}

void CarriedFlows::restore(const SavedFlows& saved, Time now) {
    const auto& carried = static_cast<const SavedCarried&>(saved);
    links_.restore(carried.links, now);
    for (auto& members : members_) members.clear();
    for (const Op op : carried.ops) members_[flow_of_op_[op]].push_back(op);
}

}  // namespace paceline
