#include "place_ideals.hpp"

#include <algorithm>
#include <chrono>

namespace paceline::place {

namespace {

using Clock = std::chrono::steady_clock;

// A well-mixed 64-bit key per class; the key of a set is the xor of its members' keys.
uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

// From key to ideal: open addressing, doubled before it is two thirds full.
class Index {
  public:
    Index() : slots_(1 << 12, -1) {}

    void insert(int32_t ideal, const std::vector<uint64_t>& keys) {
        if (3 * static_cast<size_t>(++used_) > 2 * slots_.size()) grow(keys);
        slots_[slot_of(keys[ideal], keys)] = ideal;
    }
    int32_t find(uint64_t key, const std::vector<uint64_t>& keys) const {
        return slots_[slot_of(key, keys)];
    }

  private:
    size_t slot_of(uint64_t key, const std::vector<uint64_t>& keys) const {
        size_t slot = key & (slots_.size() - 1);
        while (slots_[slot] >= 0 && keys[slots_[slot]] != key) slot = (slot + 1) & (slots_.size() - 1);
        return slot;
    }
    void grow(const std::vector<uint64_t>& keys) {
        const std::vector<int32_t> old = std::move(slots_);
        slots_.assign(old.size() * 2, -1);
        for (int32_t ideal : old)
            if (ideal >= 0) slots_[slot_of(keys[ideal], keys)] = ideal;
    }
    std::vector<int32_t> slots_;
    int64_t used_ = 0;
};

struct Order {
    std::vector<std::vector<int32_t>> before, after;
    explicit Order(const Problem& p) : before(p.classes), after(p.classes) {
        for (size_t e = 0; e < p.edge_source.size(); ++e) {
            before[p.edge_target[e]].push_back(p.edge_source[e]);
            after[p.edge_source[e]].push_back(p.edge_target[e]);
        }
    }
};

bool test(const uint64_t* bits, int32_t i) { return bits[i / 64] >> (i % 64) & 1; }
void set(uint64_t* bits, int32_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
void clear(uint64_t* bits, int32_t i) { bits[i / 64] &= ~(uint64_t{1} << (i % 64)); }

bool all_in(const std::vector<int32_t>& members, const uint64_t* bits) {
    for (int32_t m : members)
        if (!test(bits, m)) return false;
    return true;
}

template <typename F>
void for_each(const uint64_t* bits, int words, F visit) {
    for (int w = 0; w < words; ++w)
        for (uint64_t rest = bits[w]; rest; rest &= rest - 1)
            visit(w * 64 + __builtin_ctzll(rest));
}

}  // namespace

// Level by level. Each ideal grows only by classes above its largest member, so that it is met
// once: its largest member is always a maximal one, because classes are in topological order.
Ideals::Ideals(const Problem& p, int64_t limit, double seconds) : words_((p.classes + 63) / 64) {
    const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
    const Order order(p);
    const size_t w = words_;
    std::vector<uint64_t> key_of(p.classes), keys{0};
    for (int i = 0; i < p.classes; ++i) key_of[i] = mixed(i);
    Index index;
    std::vector<uint64_t> addable(w, 0), maximal(w, 0);   // of the ideals of one level
    for (int i = 0; i < p.classes; ++i)
        if (order.before[i].empty()) set(addable.data(), i);
    bits_.assign(w, 0);
    level_start_ = {0};
    child_start_ = {0, 0};
    index.insert(0, keys);
    for (int32_t begin = 0, end = 1; begin < end;) {
        std::vector<uint64_t> next_addable, next_maximal;
        for (int32_t ideal = begin; ideal < end; ++ideal) {
            const size_t at = static_cast<size_t>(ideal - begin) * w;
            int32_t largest = -1;
            for_each(&maximal[at], words_, [&](int32_t m) { largest = m; });
            for_each(&addable[at], words_, [&](int32_t added) {
                if (added < largest) return;
                const size_t row = bits_.size(), temporary = next_addable.size();
                bits_.resize(row + w);
                std::copy_n(&bits_[static_cast<size_t>(ideal) * w], w, &bits_[row]);
                set(&bits_[row], added);
                next_addable.insert(next_addable.end(), &addable[at], &addable[at] + w);
                next_maximal.insert(next_maximal.end(), &maximal[at], &maximal[at] + w);
                clear(&next_addable[temporary], added);
                for (int32_t later : order.after[added])
                    if (all_in(order.before[later], &bits_[row])) set(&next_addable[temporary], later);
                for (int32_t earlier : order.before[added]) clear(&next_maximal[temporary], earlier);
                set(&next_maximal[temporary], added);
                const auto self = static_cast<int32_t>(keys.size());
                keys.push_back(keys[ideal] ^ key_of[added]);
                index.insert(self, keys);
            });
            if (static_cast<int64_t>(keys.size()) > limit) return;
        }
        out_of_time_ = Clock::now() > deadline;
        if (out_of_time_) return;
        begin = end;
        end = static_cast<int32_t>(keys.size());
        level_start_.push_back(begin);
        for (int32_t ideal = begin; ideal < end; ++ideal) {
            const size_t at = static_cast<size_t>(ideal - begin) * w;
            for_each(&next_maximal[at], words_, [&](int32_t m) {
                child_class_.push_back(m);
                child_ideal_.push_back(index.find(keys[ideal] ^ key_of[m], keys));
            });
            child_start_.push_back(static_cast<int32_t>(child_class_.size()));
        }
        addable = std::move(next_addable);
        maximal = std::move(next_maximal);
    }
    complete_ = true;
}

}  // namespace paceline::place
