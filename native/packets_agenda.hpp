// What happens when, to the nanosecond; at one instant in the order in which it was foreseen.
//
// A ring of slots, one per nanosecond of the near future, each a list; a bitmap finds the next one
// that is not empty. What lies further ahead waits in a heap and moves into the ring as soon as the
// ring reaches it, before anything later foreseen can: so every slot keeps the order.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <queue>
#include <vector>

#include "packets.hpp"

namespace paceline::packets {

enum class What : std::uint8_t { kStart, kArrival, kFree, kPace, kTimer, kCheck };

struct Event {
    Time at;
    std::int32_t item;
    std::int32_t next;
    What what;
};

class Agenda {
  public:
    Agenda() { head_.fill(kNone); }

    void add(Time at, What what, std::int32_t item) {
        const std::int32_t made = fresh();
        pool_[made] = {at, item, kNone, what};
        if (at < now_ + kSlots)
            append(made);
        else
            far_.push({at, order_++, made});
    }

    bool empty() const { return near_ == 0 && far_.empty(); }

    // When the next event happens; of an agenda that is not empty.
    Time next() const { return near_ ? now_ + steps_to_next() : far_.top().at; }

    Event take() {
        now_ = next();
        while (!far_.empty() && far_.top().at < now_ + kSlots) {
            append(far_.top().event);
            far_.pop();
        }
        const auto slot = static_cast<std::uint32_t>(now_) & kMask;
        const std::int32_t taken = head_[slot];
        const Event event = pool_[taken];
        head_[slot] = event.next;
        if (event.next == kNone) clear(slot);
        --near_;
        free_.push_back(taken);
        return event;
    }

  private:
    static constexpr std::uint32_t kSlots = 1u << 14, kMask = kSlots - 1, kWords = kSlots / 64;
    static constexpr std::int32_t kNone = -1;

    struct Far {
        Time at;
        std::int64_t order;
        std::int32_t event;
        bool operator>(const Far& o) const { return at != o.at ? at > o.at : order > o.order; }
    };

    std::int32_t fresh() {
        if (free_.empty()) {
            pool_.emplace_back();
            return static_cast<std::int32_t>(pool_.size()) - 1;
        }
        const std::int32_t event = free_.back();
        free_.pop_back();
        return event;
    }

    void append(std::int32_t event) {
        const auto slot = static_cast<std::uint32_t>(pool_[event].at) & kMask;
        if (head_[slot] == kNone) {
            head_[slot] = event;
            words_[slot / 64] |= 1ull << (slot % 64);
            summary_[slot / 4096] |= 1ull << (slot / 64 % 64);
        } else {
            pool_[tail_[slot]].next = event;
        }
        tail_[slot] = event;
        ++near_;
    }

    void clear(std::uint32_t slot) {
        if ((words_[slot / 64] &= ~(1ull << (slot % 64))) == 0)
            summary_[slot / 4096] &= ~(1ull << (slot / 64 % 64));
    }

    // Nanoseconds from now to the first slot that is not empty.
    std::uint32_t steps_to_next() const {
        const auto here = static_cast<std::uint32_t>(now_) & kMask;
        const std::uint32_t word = here / 64;
        if (const auto bits = words_[word] >> (here % 64)) return std::countr_zero(bits);
        const std::uint32_t found = next_word((word + 1) % kWords);
        const std::uint32_t slot = found * 64 + std::countr_zero(words_[found]);
        return (slot - here) & kMask;
    }

    // The first word with a bit, from `word` on and round the ring.
    std::uint32_t next_word(std::uint32_t word) const {
        const std::uint32_t group = word / 64;
        if (const auto bits = summary_[group] >> (word % 64))
            return word + std::countr_zero(bits);
        for (std::uint32_t k = 1; k <= summary_.size(); ++k) {
            const std::uint32_t g = (group + k) % summary_.size();
            if (summary_[g]) return g * 64 + std::countr_zero(summary_[g]);
        }
        return word;  // the ring is empty: nobody asks
    }

    Time now_ = 0;
    std::int64_t order_ = 0, near_ = 0;
    std::vector<Event> pool_;
    std::vector<std::int32_t> free_;
    std::array<std::int32_t, kSlots> head_, tail_;
    std::array<std::uint64_t, kWords> words_{};
    std::array<std::uint64_t, kWords / 64> summary_{};
    std::priority_queue<Far, std::vector<Far>, std::greater<>> far_;
};

}  // namespace paceline::packets
