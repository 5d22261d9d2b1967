#include "replay_live.hpp"

#include <algorithm>
#include <bit>

namespace paceline {
namespace {

Csr reversed(const Csr& rows) {
    std::vector<Op> owner(rows.item.size());
    for (std::size_t i = 0; i + 1 < rows.ptr.size(); ++i)
        std::fill(owner.begin() + rows.ptr[i], owner.begin() + rows.ptr[i + 1],
                  static_cast<Op>(i));
    return group_by(rows.ptr.size() - 1, rows.item, owner);
}

}  // namespace

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
    std::size_t revisited = 0;
    for (std::size_t word = 0; word < dirty_.size(); ++word)
        while (dirty_[word] != 0) {  // what is marked on the way lies further on
            const int bit = std::countr_zero(dirty_[word]);
            dirty_[word] &= dirty_[word] - 1;
            revisited += revisit(static_cast<Op>(word * 64 + bit));
        }
    return revisited;
}

std::size_t Live::revisit(Op at) {
    const Op run = run_of_.empty() ? kNone : run_of_[at];
    if (run == kNone) {
        finish(at, arrival(at) + dur_[at]);
        return 1;
    }
    const auto [begin, stop] = program_->joined[run];
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
    for (const Op next : succs_.row(at)) mark(next);
}

Time Live::arrival(Op at) const {
    Time ready = 0;
    for (const Op before : program_->preds.row(at)) ready = std::max(ready, end_[before]);
    return ready;
}

Time Live::step() const {
    return end_.empty() ? 0 : *std::max_element(end_.begin(), end_.end());
}

void Live::times(Timeline& out) const {
    for (Op at = 0; at < program_->ops; ++at) {
        const Op op = program_->order[at];
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
