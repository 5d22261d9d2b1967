#include "replay_live.hpp"

#include <algorithm>
#include <bit>

namespace paceline {

Live::Live(std::shared_ptr<const Program> program, std::span<const Time> dur)
    : program_(std::move(program)), position_(program_->ops), dur_(program_->ops),
      end_(program_->ops), succs_(reversed(program_->preds)), dirty_((program_->ops + 63) / 64) {
    for (Op at = 0; at < program_->ops; ++at) {
        position_[program_->order[at]] = at;
        dur_[at] = dur[program_->order[at]];
    }
    if (!program_->joined.empty()) run_of_.assign(program_->ops, kNone);
    for (std::size_t run = 0; run < program_->joined.size(); ++run)
        for (Op at = program_->joined[run].begin; at < program_->joined[run].end; ++at)
            run_of_[at] = static_cast<Op>(run);
    pull_step(*program_, dur.data(), end_.data());
}

std::size_t Live::resize(std::span<const Op> ops, std::span<const Time> dur) {
    for (std::size_t i = 0; i < ops.size(); ++i) {
        const Op at = position_[ops[i]];
        if (dur_[at] == dur[i]) continue;
        dur_[at] = dur[i];
        mark(at);
    }
    return settle();
}

std::size_t Live::settle() {
    std::size_t revisited = 0;
    for (cursor_ = 0; cursor_ < dirty_.size();) {
        std::uint64_t& word = dirty_[cursor_];
        if (word == 0) {
            ++cursor_;
            continue;
        }
        const auto at = static_cast<Op>(cursor_ * 64 + std::countr_zero(word));
        word &= word - 1;
        revisited += revisit(at);
    }
    return revisited;
}

Op Live::add(Time dur) {
    const Op at = static_cast<Op>(position_.size());
    position_.push_back(at);
    dur_.push_back(dur);
    end_.push_back(0);
    if (!run_of_.empty()) run_of_.push_back(kNone);
    if (dirty_.size() * 64 < position_.size()) dirty_.push_back(0);
    changed(at);
    mark(at);
    return at;
}

void Live::drop() {
    const Op at = static_cast<Op>(position_.size()) - 1;
    changed_.erase(at);
    dirty_[static_cast<std::size_t>(at) >> 6] &= ~(1ull << (at & 63));
    position_.pop_back();
    dur_.pop_back();
    end_.pop_back();
    is_changed_.resize(position_.size());
    if (!run_of_.empty()) run_of_.pop_back();
}

bool Live::link(Op before, Op op) {
    const Op from = position_[before], to = position_[op];
    if (reaches(to, from)) return false;
    changed(to).preds.push_back(from);
    changed(from).succs.push_back(to);
    mark(to);
    return true;
}

void Live::unlink(Op before, Op op) {
    const Op from = position_[before], to = position_[op];
    auto& preds = changed(to).preds;
    auto& succs = changed(from).succs;
    preds.erase(std::find(preds.begin(), preds.end(), from));
    succs.erase(std::find(succs.begin(), succs.end(), to));
    mark(to);
}

std::vector<Op> Live::followers(Op op) const {
    std::vector<Op> out;
    for (const Op at : succs(position_[op]))
        out.push_back(at < program_->ops ? program_->order[at] : at);
    return out;
}

std::span<const Op> Live::preds(Op at) const {
    if (is_changed_.empty() || !is_changed_[at]) return program_->preds.row(at);
    return changed_.at(at).preds;
}

std::span<const Op> Live::succs(Op at) const {
    if (is_changed_.empty() || !is_changed_[at]) return succs_.row(at);
    return changed_.at(at).succs;
}

Live::Rows& Live::changed(Op at) {
    is_changed_.resize(position_.size());
    if (!is_changed_[at]) {
        Rows rows;
        if (at < program_->ops) {
            const auto before = program_->preds.row(at), after = succs_.row(at);
            rows = {{before.begin(), before.end()}, {after.begin(), after.end()}};
        }
        changed_[at] = std::move(rows);
        is_changed_[at] = 1;
    }
    return changed_[at];
}

Run Live::run(Op at) const {
    const Op run = run_of_.empty() ? kNone : run_of_[at];
    return run == kNone ? Run{at, at + 1} : program_->joined[run];
}

bool Live::reaches(Op from, Op to) const {
    const Run target = run(to);
    std::vector<std::uint8_t> seen(position_.size());
    std::vector<Op> next{from};
    while (!next.empty()) {
        const Run here = run(next.back());
        next.pop_back();
        if (here.begin == target.begin) return true;
        if (seen[here.begin]) continue;
        seen[here.begin] = 1;
        for (Op at = here.begin; at < here.end; ++at)
            for (const Op after : succs(at))
                if (!seen[after]) next.push_back(after);
    }
    return false;
}

std::size_t Live::revisit(Op at) {
    const auto [begin, stop] = run(at);
    if (stop - begin == 1) {
        finish(at, arrival(at) + dur_[at]);
        return 1;
    }
    Time start = 0;
    for (Op member = begin; member < stop; ++member) {
        dirty_[member >> 6] &= ~(1ull << (member & 63));
        start = std::max(start, arrival(member));
    }
    for (Op member = begin; member < stop; ++member) finish(member, start + dur_[member]);
    return stop - begin;
}

void Live::finish(Op at, Time end) {
    if (end_[at] == end) return;
    end_[at] = end;
    for (const Op next : succs(at)) mark(next);
}

Time Live::arrival(Op at) const {
    Time ready = 0;
    for (const Op before : preds(at)) ready = std::max(ready, end_[before]);
    return ready;
}

Time Live::step() const {
    return end_.empty() ? 0 : *std::max_element(end_.begin(), end_.end());
}

void Live::times(Timeline& out) const {
    for (Op at = 0; at < ops(); ++at) {
        const Op op = at < program_->ops ? program_->order[at] : at;
        out.ready[op] = arrival(at);
        out.end[op] = end_[at];
        out.start[op] = end_[at] - dur_[at];
    }
}

std::size_t Live::bytes() const {
    return position_.size() * 4 + dur_.size() * 16 + succs_.bytes() + run_of_.size() * 4 +
           dirty_.size() * 8;
}

}  // namespace paceline
