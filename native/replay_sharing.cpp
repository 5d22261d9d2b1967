#include "replay_sharing.hpp"

#include <algorithm>
#include <numeric>

#include "replay_editable.hpp"

namespace paceline {
namespace {

constexpr Time kFull = 4096;  // units of work a ns at full rate, as FULL in contention.py
constexpr std::uint8_t kNeither = 0, kComputes = 1, kCommunicates = 2;

}  // namespace

template <class P>
Rates<P>::Rates(const P& p, const Sharing* sharing, Agenda& agenda)
    : p_(p), sharing_(sharing), agenda_(agenda), flows_(sharing ? sharing->flows : nullptr) {
    if (!sharing) return;
    const std::size_t devices = sharing->slowed.size() / 2;
    jobs_.resize(sharing->device.size());
    running_.assign(devices, {0, 0, 0});
    is_touched_.assign(devices, 0);
    std::vector<Op> lanes(sharing->device.size());
    std::iota(lanes.begin(), lanes.end(), 0);
    lanes_on_ = group_by(devices, sharing->device, lanes);
}

template <class P>
void Rates<P>::begin(Op op, Time now, Time dur) {
    count(op, +1);
    if (carried(op)) return flows_->begin(op, now);
    const Op lane = p_.lane_of[op];
    jobs_[lane] = {op, dur * kFull, now, kFull, now + dur};
    agenda_.set(lane, now + dur);
}

template <class P>
void Rates<P>::take_ended(Time now, std::vector<Op>& ended) {
    for (const Op op : ended) {
        jobs_[p_.lane_of[op]].op = kNone;
        count(op, -1);
    }
    if (!p_.instance_of.empty())  // whoever was held up by a member that ended may speed up
        for (const Op op : ended)
            if (const Op instance = p_.instance_of[op]; instance != kNone)
                for (const Op member : p_.members.row(instance))
                    touch(sharing_->device[p_.lane_of[member]]);
    if (!flows_ || flows_->next_end() != now) return;
    const std::size_t own = ended.size();
    flows_->take_ended(now, ended);
    for (std::size_t i = own; i < ended.size(); ++i) count(ended[i], -1);
}

template <class P>
void Rates<P>::count(Op op, int change) {
    const Op device = sharing_->device[p_.lane_of[op]];
    running_[device][sharing_->sort[op]] += change;
    touch(device);
}

template <class P>
void Rates<P>::touch(Op device) {
    if (is_touched_[device]) return;
    is_touched_[device] = 1;
    touched_.push_back(device);
}

template <class P>
void Rates<P>::settle(Time now) {
    if (flows_) flows_->settle(now);
    for (const Op device : touched_) {
        is_touched_[device] = 0;
        for (const Op lane : lanes_on_.row(device))
            if (jobs_[lane].op != kNone) reprice(jobs_[lane].op, now);
    }
    touched_.clear();
}

template <class P>
void Rates<P>::reprice(Op op, Time now) {
    const Op instance = p_.instance_of.empty() ? kNone : p_.instance_of[op];
    if (instance == kNone) return set_rate(p_.lane_of[op], own_rate(op), now);
    Time slowest = kFull;
    for (const Op member : p_.members.row(instance))
        if (runs(member)) slowest = std::min(slowest, own_rate(member));
    for (const Op member : p_.members.row(instance))
        if (runs(member)) set_rate(p_.lane_of[member], slowest, now);
}

template <class P>
Time Rates<P>::own_rate(Op op) const {
    const std::uint8_t sort = sharing_->sort[op];
    const Op device = sharing_->device[p_.lane_of[op]];
    const auto& running = running_[device];
    const bool both = running[kComputes] != 0 && running[kCommunicates] != 0;
    if (sort == kNeither || !both) return kFull;
    return sharing_->slowed[2 * device + (sort - kComputes)];
}

template <class P>
void Rates<P>::set_rate(Op lane, Time rate, Time now) {
    Job& job = jobs_[lane];
    if (job.rate == rate) return;
    job.left -= (now - job.since) * job.rate;
    job.since = now;
    job.rate = rate;
    job.end = now + (job.left + rate - 1) / rate;
    agenda_.set(lane, job.end);
}

template <class P>
SavedRates Rates<P>::save(Time now) const {
    SavedRates out;
    for (std::size_t lane = 0; lane < jobs_.size(); ++lane)
        if (const Job& job = jobs_[lane]; job.op != kNone)
            out.jobs.push_back({static_cast<Op>(lane), job.op,
                                job.left - (now - job.since) * job.rate, job.rate});
    out.running = running_;
    if (flows_) out.flows = flows_->save(now);
    return out;
}

template <class P>
void Rates<P>::restore(const SavedRates& saved, Time now) {
    std::fill(jobs_.begin(), jobs_.end(), Job{});
    for (const auto& [lane, op, left, rate] : saved.jobs) {
        jobs_[lane] = {op, left, now, rate, now + (left + rate - 1) / rate};
        agenda_.set(lane, jobs_[lane].end);
    }
    running_ = saved.running;
    if (flows_) flows_->restore(*saved.flows, now);
}

template class Rates<Program>;
template class Rates<Editable>;

}  // namespace paceline
