#include "replay_editable.hpp"

#include <algorithm>

namespace paceline {

Rows::Rows(const Csr& rows)
    : item(rows.item.begin(), rows.item.end()), used_(rows.item.size()) {
    spans_.reserve(rows.rows());
    for (std::size_t i = 0; i < rows.rows(); ++i)
        spans_.push_back({rows.begin(i), rows.end(i) - rows.begin(i)});
}

bool Rows::has(std::size_t i, Op op) const {
    const auto all = row(i);
    return std::find(all.begin(), all.end(), op) != all.end();
}

void Rows::insert(std::size_t i, std::size_t at, Op op) {
    if (end(i) != item.size()) {
        if (item.size() > 2 * used_ + 1024) close_gaps();
        const auto old = row(i);
        const std::vector<Op> kept(old.begin(), old.end());
        spans_[i].from = static_cast<std::uint32_t>(item.size());
        item.insert(item.end(), kept.begin(), kept.end());
    }
    item.insert(item.begin() + spans_[i].from + static_cast<std::ptrdiff_t>(at), op);
    ++spans_[i].size;
    ++used_;
}

void Rows::erase(std::size_t i, Op op) {
    const auto first = item.begin() + spans_[i].from, last = item.begin() + end(i);
    const auto kept = static_cast<std::uint32_t>(std::remove(first, last, op) - first);
    used_ -= spans_[i].size - kept;
    spans_[i].size = kept;
}

void Rows::add_row() {
    spans_.push_back({static_cast<std::uint32_t>(item.size()), 0});
}

void Rows::drop_row() {
    used_ -= spans_.back().size;
    spans_.pop_back();
}

void Rows::close_gaps() {
    std::vector<Op> kept;
    kept.reserve(2 * used_);
    for (std::size_t i = 0; i < spans_.size(); ++i) {
        const auto old = row(i);
        spans_[i].from = static_cast<std::uint32_t>(kept.size());
        kept.insert(kept.end(), old.begin(), old.end());
    }
    item = std::move(kept);
}

Editable::Editable(const Program& p)
    : ops(p.ops), first_added(p.ops), there(p.ops), succs(p.succs), preds(reversed(p.succs)),
      members(p.members), queue(p.queue), drains(p.drains), launches(p.launches),
      lane_of(p.lane_of), instance_of(p.instance_of), waits_for_launch(p.waits_for_launch),
      discipline(p.discipline), drained_lane(p.drained_lane), gone(p.ops) {}

Op Editable::add(Op lane, Op anchor) {
    lane_of.push_back(lane);
    gone.push_back(1);
    anchors.push_back(anchor);
    succs.add_row();
    preds.add_row();
    if (!instance_of.empty()) instance_of.push_back(kNone);
    if (!drained_lane.empty()) {
        drains.add_row();
        launches.add_row();
        waits_for_launch.push_back(0);
    }
    ++ops;
    number();
    return ops - 1;
}

void Editable::drop() {
    lane_of.pop_back();
    gone.pop_back();
    anchors.pop_back();
    succs.drop_row();
    preds.drop_row();
    if (!instance_of.empty()) instance_of.pop_back();
    if (!drained_lane.empty()) {
        drains.drop_row();
        launches.drop_row();
        waits_for_launch.pop_back();
    }
    --ops;
    number();
}

void Editable::admit(Op op) {
    const Op lane = lane_of[op];
    if (discipline[lane] == kRecorded) queue.insert(lane, place(op), op);
    if (!instance_of.empty() && instance_of[op] != kNone) members.append(instance_of[op], op);
    gone[op] = 0;
    ++there;
}

void Editable::withdraw(Op op) {
    const Op lane = lane_of[op];
    if (discipline[lane] == kRecorded) queue.erase(lane, op);
    if (!instance_of.empty() && instance_of[op] != kNone) members.erase(instance_of[op], op);
    gone[op] = 1;
    --there;
}

void Editable::link(Op before, Op op) {
    preds.append(op, before);
    succs.append(before, op);
}

void Editable::unlink(Op before, Op op) {
    preds.erase(op, before);
    succs.erase(before, op);
}

std::size_t Editable::place(Op op) const {
    const auto row = queue.row(lane_of[op]);
    const auto before = [&](Op a, Op b) { return key_of(a) < key_of(b); };
    return static_cast<std::size_t>(std::lower_bound(row.begin(), row.end(), op, before) -
                                    row.begin());
}

void Editable::number() {  // added ops stand behind their anchors, in the order they came
    key.clear();
    by_key.clear();
    if (anchors.empty()) return;
    std::vector<Op> added(anchors.size());
    for (std::size_t i = 0; i < added.size(); ++i) added[i] = first_added + static_cast<Op>(i);
    const auto anchor = [&](Op op) { return anchors[op - first_added]; };
    std::stable_sort(added.begin(), added.end(),
                     [&](Op a, Op b) { return anchor(a) < anchor(b); });
    key.resize(ops);
    by_key.reserve(ops);
    auto next = added.begin();
    for (Op op = 0; op < first_added; ++op) {
        by_key.push_back(op);
        for (; next != added.end() && anchor(*next) == op; ++next) by_key.push_back(*next);
    }
    for (Op at = 0; at < ops; ++at) key[by_key[at]] = at;
}

std::size_t Editable::bytes() const {
    const std::size_t numbers = lane_of.size() + instance_of.size() + waits_for_launch.size() +
                                anchors.size() + key.size() + by_key.size();
    return succs.bytes() + preds.bytes() + members.bytes() + queue.bytes() + drains.bytes() +
           launches.bytes() + numbers * 4 + discipline.size() + drained_lane.size() + gone.size();
}

}  // namespace paceline
