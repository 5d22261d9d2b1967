#include "replay_rerun.hpp"

#include <iterator>
#include <type_traits>

#include "replay_rounds.hpp"

namespace paceline {
namespace {

template <bool kShared>
using RatesOf = std::conditional_t<kShared, Rates<Editable>, FixedRates<Editable>>;

template <bool kShared>
class Again final : public Rerunner, private Rounds<Again<kShared>, Editable, RatesOf<kShared>> {
    using Base = Rounds<Again<kShared>, Editable, RatesOf<kShared>>;
    friend Base;
    using Base::absent_, Base::agenda_, Base::draining_, Base::ended_, Base::finished_,
        Base::given_, Base::held_, Base::holds_, Base::lanes_, Base::missing_, Base::p_,
        Base::rates_, Base::unlaunched_;

  public:
    Again(const Editable& shape, Past& past, const Sharing* sharing)
        : Base(shape, sharing), past_(past), next_(lanes_.size()) {
        if constexpr (kShared) beginning_ = rates_.save(0);
    }

    Rerun from_zero() override {
        past_.posts.clear();
        std::fill(past_.rank.begin(), past_.rank.end(), kNone);
        came_before_ = 0;
        return run(nullptr);
    }

    Rerun after(const Change& change) override {
        auto& posts = past_.posts;
        const auto later = std::partition_point(
            posts.begin(), posts.end(), [&](const Post& post) { return post.now < change.from; });
        old_posts_.assign(std::move_iterator(later), std::move_iterator(posts.end()));
        posts.erase(later, posts.end());
        const Op kept = posts.empty() ? 0 : posts.back().ended;
        past_.reconcile(p_, change.ops, kept, old_posts_);
        came_before_ = kept + static_cast<Op>(change.ops.came.size());
        return run(&change);
    }

    std::size_t bytes() const override {
        std::size_t sum = 4 * (missing_.size() + absent_.size()) + lanes_.size() * sizeof(Lane);
        for (const Lane& lane : lanes_) sum += lane.waiting.entries().capacity() * sizeof(Waiting);
        if (draining_) sum += missing_.size() * (4 + 4 + 1 + sizeof(holds_[0]));
        return sum;
    }

  private:
    // Hooks of Rounds.
    Time dur(Op op) const { return past_.dur[op]; }
    std::int32_t priority(Op op) const { return past_.priority[op]; }
    std::uint32_t key(Op op) const { return p_.key_of(op); }
    Op by_key(std::uint32_t key) const { return p_.op_of(key); }

    void foresee(Op op) const {
        __builtin_prefetch(&past_.dur[op]);
        __builtin_prefetch(&past_.priority[op]);
    }

    void became_ready(Op op, Time now) {
        past_.moved[op] = now - past_.since[op];
        past_.since[op] = now;
    }

    void arrived(Op op, Time now, Op previous) {
        if (this->instance(op) != kNone) past_.was_ready[op] = past_.ready[op];
        past_.ready[op] = now;
        past_.previous[op] = previous;
        ++running_;
    }

    void started(Op op, Time now) {
        if (!past_.start.empty()) past_.start[op] = now;
    }

    void ended(Op op, Time now) {
        past_.end[op] = now;
        furthest_ = std::max(furthest_, past_.rank[op]);
        past_.rank[op] = finished_;
        past_.order[finished_] = op;
        --running_;
    }

    void held(Op op, Op other) { past_.drained.emplace_back(op, other); }

    bool over(Time now) {
        if (finished_ < next_look_) return false;
        Post post{finished_, running_, now, {}};
        if constexpr (kShared) post.rates = rates_.save(now);
        stopped_ = meets_the_past(post);
        if (stopped_ || finished_ >= next_post_) past_.posts.push_back(std::move(post));
        if (stopped_) take_over_the_rest(now);
        look_ahead();
        return stopped_;
    }

    // Posts stand where their multiples of ops have ended; old ones are looked at where they stand.
    void look_ahead() {
        if (finished_ >= next_post_) next_post_ = (finished_ / past_.interval + 1) * past_.interval;
        while (seen_post_ < old_posts_.size() && old_posts_[seen_post_].ended <= finished_)
            ++seen_post_;
        next_look_ = next_post_;
        if (seen_post_ < old_posts_.size())
            next_look_ = std::min(next_look_, old_posts_[seen_post_].ended);
    }

    Rerun run(const Change* change) {
        change_ = change;
        missing_.resize(p_.ops);
        stopped_ = false;
        seen_post_ = seen_touched_ = 0;
        clear_lanes();
        if (past_.posts.empty())
            begin_anew();
        else
            rewind(past_.posts.back());
        const Op began = finished_;
        furthest_ = began - 1;
        next_post_ = 0;
        look_ahead();
        if (began == 0) this->begin_at_zero();
        this->go_on(std::max(rewound_to_, Time{0}));
        old_posts_.clear();
        const bool complete = stopped_ || finished_ == p_.there;
        if (!stopped_) std::fill(past_.order.begin() + finished_, past_.order.end(), kNone);
        return {static_cast<std::size_t>(finished_ - began), complete};
    }

    void clear_lanes() {
        agenda_.clear();
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            Lane& lane = lanes_[i];
            lane.running = lane.last = kNone;
            lane.touched = false;
            lane.cursor = p_.queue.begin(i);
            lane.stop = p_.queue.end(i);
            lane.waiting.clear();
        }
        for (auto& given : given_) given.clear();
    }

    void begin_anew() {
        finished_ = running_ = 0;
        rewound_to_ = -1;
        for (Op op = 0; op < p_.ops; ++op)  // one that is gone never becomes ready
            missing_[op] = p_.gone[op] ? kNone : static_cast<Op>(p_.preds.row(op).size());
        if (draining_) unlaunched_ = p_.waits_for_launch;
        later_drained_ = std::move(past_.drained);
        past_.drained.clear();
        if constexpr (kShared) rates_.restore(beginning_, 0);
    }

    // Makes the state at the end of an instant again from the timeline.
    void rewind(const Post& post) {
        finished_ = post.ended;
        running_ = post.running;
        rewound_to_ = post.now;
        std::fill(missing_.begin(), missing_.end(), 0);
        std::fill(absent_.begin(), absent_.end(), 0);
        if (draining_) {
            unlaunched_.assign(p_.ops, 0);
            held_.assign(p_.ops, 0);
            holds_.assign(p_.ops, {});
            ended_.assign(p_.ops, 1);
        }
        for (Lane& lane : lanes_)
            if (lane.recorded) lane.cursor = lane.stop;
        std::fill(next_.begin(), next_.end(), kNone);
        for (Op op = 0; op < p_.ops; ++op)  // in memory's order, which is several times faster
            if (!had_ended(op) && !p_.gone[op]) take_back(op);
        find_last();
        if (draining_) sort_out_drained();
        if constexpr (kShared)
            rates_.restore(post.rates, post.now);
        else
            for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
                if (const Op op = lanes_[lane].running; op != kNone && has_begun(op))
                    agenda_.set(lane, past_.started(op) + past_.dur[op]);
    }

    bool had_arrived(Op op) const { return past_.ready[op] <= rewound_to_; }

    bool had_ended(Op op) const { return past_.rank[op] < finished_; }

    void take_back(Op op) {
        const Op id = p_.lane_of[op];
        Lane& lane = lanes_[id];
        comes_on(id, op);
        for (const Op follower : p_.succs.row(op)) ++missing_[follower];
        if (had_arrived(op)) {
            lane.running = op;
        } else {
            if (lane.recorded)
                --lane.cursor;
            else if (past_.since[op] <= rewound_to_)
                lane.waiting.push(waiting(past_.priority[op], past_.since[op], key(op)));
            if (const Op joined = this->instance(op); joined != kNone) ++absent_[joined];
        }
        if (!draining_) return;
        ended_[op] = 0;
        for (const Op launched : p_.launches.row(op)) ++unlaunched_[launched];
    }

    // Keeps the first op that is still to come on each lane, as the past has it.
    void comes_on(Op lane, Op op) {
        const Op rank = past_.rank[op], next = next_[lane];
        if (rank >= came_before_ && (next == kNone || rank < past_.rank[next])) next_[lane] = op;
    }

    // Which op each lane served last.
    void find_last() {
        for (const Op op : change_->ops.came)
            lanes_[p_.lane_of[op]].last = last_ended_on(p_.lane_of[op]);
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
            if (lanes_[lane].running != kNone)
                lanes_[lane].last = lanes_[lane].running;
            else if (next_[lane] != kNone)
                lanes_[lane].last = past_.previous[next_[lane]];
    }

    Op last_ended_on(Op lane) const {
        for (Op at = finished_; at-- > 0;)
            if (p_.lane_of[past_.order[at]] == lane) return past_.order[at];
        return kNone;
    }

    void sort_out_drained() {
        later_drained_.clear();
        std::erase_if(past_.drained, [&](const auto& pair) {
            if (had_arrived(pair.first)) return false;
            later_drained_.push_back(pair);
            return true;
        });
        for (const auto& [op, other] : past_.drained)
            if (!ended_[op] && !ended_[other]) {
                ++held_[op];
                holds_[other].push_back(op);
            }
        for (Op op = 0; op < p_.ops; ++op)
            if (!ended_[op] && !p_.gone[op] && lanes_[p_.lane_of[op]].listed && was_given(op))
                given_[p_.lane_of[op]].push_back(op);
    }

    bool was_given(Op op) const {
        return p_.waits_for_launch[op] == 0 ? had_arrived(op) : unlaunched_[op] == 0;
    }

    bool has_begun(Op op) const {  // one that runs
        if (this->drains(op)) return held_[op] == 0;
        const Op joined = this->instance(op);
        return joined == kNone || absent_[joined] == 0;
    }

    // Whether all that runs and waits now is as at the old post after as many ends, all of it later
    // by one difference, and nothing that was changed is still to come.
    bool meets_the_past(const Post& post) {
        while (seen_post_ < old_posts_.size() && old_posts_[seen_post_].ended < finished_)
            ++seen_post_;  // between two instants
        if (!change_ || seen_post_ == old_posts_.size()) return false;
        const Post& old = old_posts_[seen_post_];
        if (old.ended != finished_ || old.running != running_) return false;
        if (furthest_ != finished_ - 1) return false;  // not the same ops have ended
        const auto& touched = change_->touched;
        for (; seen_touched_ < touched.size(); ++seen_touched_)
            if (past_.rank[touched[seen_touched_]] >= finished_) return false;
        if constexpr (kShared)
            if (!post.rates.equals(old.rates)) return false;
        const Time later = post.now - old.now;
        return std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
            return runs_as_before(lane, later) && waits_as_before(lane, later);
        });
    }

    bool runs_as_before(const Lane& lane, Time later) const {
        const Op op = lane.running;
        if (op == kNone) return true;
        if (this->drains(op) && held_[op] != 0) return false;
        if (!has_begun(op)) {  // it waits for partners, and must have waited then
            const Time was = past_.ready[op] <= rewound_to_ ? past_.ready[op] : past_.was_ready[op];
            return was <= old_posts_[seen_post_].now;
        }
        if constexpr (kShared) return true;  // rates were compared
        return agenda_.of(p_.lane_of[op]) == past_.end[op] + later;
    }

    bool waits_as_before(const Lane& lane, Time later) const {
        const auto& entries = lane.waiting.entries();
        return std::all_of(entries.begin(), entries.end(), [&](Waiting entry) {
            const Op op = by_key(key_of(entry));
            return (past_.since[op] <= rewound_to_ ? 0 : past_.moved[op]) == later;
        });
    }

    // All that is still to come is as the old timeline has it, by one difference later.
    void take_over_the_rest(Time now) {
        const Time later = now - old_posts_[seen_post_].now;
        std::fill(next_.begin(), next_.end(), kNone);
        for (Op op = 0; op < p_.ops; ++op)
            if (past_.rank[op] >= finished_) put_off(op, later);
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
            if (next_[lane] != kNone) past_.previous[next_[lane]] = lanes_[lane].last;
        for (const auto& [op, other] : later_drained_)
            if (past_.rank[op] >= finished_ && lanes_[p_.lane_of[op]].running != op)
                past_.drained.emplace_back(op, other);
        for (auto post = old_posts_.begin() + seen_post_ + 1; post != old_posts_.end(); ++post) {
            post->now += later;
            past_.posts.push_back(std::move(*post));
        }
    }

    void put_off(Op op, Time later) {
        const Op lane = p_.lane_of[op];
        const bool runs = lanes_[lane].running == op;
        if (!runs) comes_on(lane, op);
        if (later == 0) return;
        past_.end[op] += later;
        if (!past_.start.empty() && (!runs || !has_begun(op))) past_.start[op] += later;
        if (runs) return;
        past_.ready[op] += later;
        if (missing_[op] > 0) past_.since[op] += later;
    }

    Past& past_;
    SavedRates beginning_;
    const Change* change_ = nullptr;
    std::vector<Post> old_posts_;
    std::vector<std::pair<Op, Op>> later_drained_;
    std::vector<Op> next_;  // by lane: the op that will arrive next
    std::size_t seen_post_ = 0, seen_touched_ = 0;
    Time rewound_to_ = -1;  // the instant gone back to
    Op running_ = 0, furthest_ = kNone, next_post_ = 0, next_look_ = 0;
    Op came_before_ = 0;  // ranks below it are those of ops that came
    bool stopped_ = false;
};

}  // namespace

std::unique_ptr<Rerunner> rerunner(const Editable& shape, Past& past, const Sharing* sharing) {
    if (sharing) return std::make_unique<Again<true>>(shape, past, sharing);
    return std::make_unique<Again<false>>(shape, past, nullptr);
}

}  // namespace paceline
