#include "replay_live_events.hpp"

#include <algorithm>

namespace paceline {
namespace {

constexpr Op kPosts = 1024;        // at most, where a post is a few numbers
constexpr Op kSharedPosts = 64;    // where it holds all that runs
constexpr Op kShortest = 4;        // ops from post to post

Time later(Time at, Time by) { return at == kNever ? kNever : at + by; }

template <class Keep>
void only(std::vector<Op>& ops, Keep keep) {  // those, each once
    std::erase_if(ops, [&](Op op) { return !keep(op); });
    std::sort(ops.begin(), ops.end());
    ops.erase(std::unique(ops.begin(), ops.end()), ops.end());
}

}  // namespace

LiveEvents::LiveEvents(const Program& program, std::span<const Time> dur,
                       std::span<const std::int32_t> priority, const Sharing* sharing)
    : shape_(program),
      past_(shape_, dur, priority, std::max(kShortest, program.ops / (sharing ? kSharedPosts : kPosts))) {
    if (sharing) {
        sharing_ = *sharing;
        sort_.assign(sharing->sort.begin(), sharing->sort.end());
        carried_.assign(sharing->carried.begin(), sharing->carried.end());
        sharing_.sort = sort_;
        sharing_.carried = carried_;
    }
    rerunner_ = rerunner(shape_, past_, sharing ? &sharing_ : nullptr);
    broken_ = true;  // nothing stands yet
}

bool LiveEvents::settle() {
    revisited_ = 0;
    auto& [came, went] = change_.ops;
    only(came, [&](Op op) { return !shape_.gone[op] && past_.rank[op] == kNone; });
    only(went, [&](Op op) { return shape_.gone[op] && past_.rank[op] != kNone; });
    if (broken_ || change_.from != kNever) {
        const Rerun rerun = broken_ ? rerunner_->from_zero() : rerunner_->after(change_);
        broken_ = !rerun.complete;
        revisited_ = rerun.revisited;
    }
    change_ = {};
    for (; dropping_ > 0; --dropping_) drop_now();
    return !broken_;
}

void LiveEvents::resize(std::span<const Op> ops, std::span<const Time> dur) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const Op op = ops[i];
        if (past_.dur[op] == dur[i]) continue;
        past_.dur[op] = dur[i];
        if (shape_.gone[op]) continue;
        const Time start = past_.started(op);  // with shared rates, others depend on the work left
        changes(sort_.empty() ? std::min(past_.end[op], later(start, dur[i])) : start);
        change_.touched.push_back(op);
    }
}

void LiveEvents::prioritise(std::span<const Op> ops, std::span<const std::int32_t> priority) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const Op op = ops[i];
        if (past_.priority[op] == priority[i]) continue;
        past_.priority[op] = priority[i];
        if (shape_.gone[op] || recorded(op)) continue;
        changes(past_.since[op]);
        change_.touched.push_back(op);
    }
}

void LiveEvents::link(Op before, Op op) {
    shape_.link(before, op);
    if (shape_.gone[op] || past_.end[before] < past_.since[op]) return;
    rethink(op);
}

void LiveEvents::unlink(Op before, Op op) {
    shape_.unlink(before, op);
    if (shape_.gone[op] || past_.end[before] < past_.since[op]) return;
    rethink(op);
}

// Other ends than before decide when the op becomes ready.
void LiveEvents::rethink(Op op) {
    const Time since = ready_by_deps(op);
    changes(std::min(since, past_.since[op]));
    past_.since[op] = since;
    change_.touched.push_back(op);
}

Time LiveEvents::ready_by_deps(Op op) const {
    Time ready = 0;
    for (const Op before : shape_.preds.row(op)) ready = std::max(ready, past_.end[before]);
    return ready;
}

Op LiveEvents::add(Op lane, Op anchor, Time dur, std::uint8_t sort) {
    if (dropping_ > 0) settle();
    const Op op = shape_.add(lane, anchor);
    past_.add(dur, 0);
    past_.end[op] = kNever;
    if (!sort_.empty()) grow_sharing(sort);
    return op;
}

void LiveEvents::grow_sharing(std::uint8_t sort) {
    sort_.push_back(sort);
    if (!carried_.empty()) carried_.push_back(0);
    sharing_.sort = sort_;
    sharing_.carried = carried_;
}

void LiveEvents::drop_now() {
    shape_.drop();
    past_.drop();
    if (!sort_.empty()) sort_.pop_back();
    if (!carried_.empty()) carried_.pop_back();
    sharing_.sort = sort_;
    sharing_.carried = carried_;
}

void LiveEvents::admit(Op op) {
    shape_.admit(op);
    change_.ops.came.push_back(op);
    change_.touched.push_back(op);
    const Time since = ready_by_deps(op), arrives = std::max(since, freed(op));
    past_.since[op] = since;
    past_.ready[op] = arrives;
    if (!past_.start.empty()) past_.start[op] = arrives;
    past_.end[op] = later(arrives, past_.dur[op]);  // or after that
    changes(recorded(op) ? std::min(arrives, next_arrival(op)) : since);
    partners_of(op);
    for (const Op follower : shape_.succs.row(op)) rethink(follower);
}

void LiveEvents::withdraw(Op op) {
    changes(past_.ready[op]);
    if (recorded(op)) changes(next_arrival(op));
    partners_of(op);
    shape_.withdraw(op);
    change_.ops.went.push_back(op);
    past_.end[op] = kNever;
}

// When the op before it on its RECORDED lane ends.
Time LiveEvents::freed(Op op) const {
    const std::size_t at = recorded(op) ? shape_.place(op) : 0;
    return at == 0 ? 0 : past_.end[shape_.queue.row(shape_.lane_of[op])[at - 1]];
}

// When the op behind it on its RECORDED lane would arrive if this one were not there.
Time LiveEvents::next_arrival(Op op) const {
    const auto row = shape_.queue.row(shape_.lane_of[op]);
    const std::size_t at = shape_.place(op) + 1;
    return at >= row.size() ? kNever : std::max(past_.since[row[at]], freed(op));
}

// The others of its instance start when the last of them has arrived, or wait for it.
void LiveEvents::partners_of(Op op) {
    if (shape_.instance_of.empty() || shape_.instance_of[op] == kNone) return;
    Time arrived = -1;
    for (const Op other : shape_.members.row(shape_.instance_of[op]))
        if (other != op) arrived = std::max(arrived, past_.ready[other]);
    if (arrived >= 0) changes(arrived);
}

Time LiveEvents::step() const {
    return shape_.there == 0 ? 0 : past_.end[past_.order[shape_.there - 1]];
}

std::size_t LiveEvents::bytes() const {
    return shape_.bytes() + past_.bytes() + rerunner_->bytes() + sort_.size() + carried_.size();
}

}  // namespace paceline
