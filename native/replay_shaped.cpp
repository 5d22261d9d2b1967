#include "replay_shaped.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {
namespace {

constexpr double kFrame = 1514;     // FRAME_BYTES in shaped_pace.py
constexpr double kNothing = 1e-3;   // NOTHING_BYTES there
constexpr double kMostLoad = 0.95;  // MOST_LOAD in hosts.py
constexpr double kWide = std::numeric_limits<double>::infinity();

Time whole(double ns) {  // rounded up; what no timeline reaches is never
    return ns < 4e18 ? static_cast<Time>(std::ceil(ns)) : kNever;
}

Time later(Time now, Time by) { return by == kNever ? kNever : now + by; }

}  // namespace

ShapedFlows::ShapedFlows(ShapedTable table, Shaping shaping)
    : t_(std::move(table)), shaping_(shaping), links_(t_.capacity.size()), tokens_(t_.burst),
      free_(t_.capacity.size()), used_(t_.capacity.size()), loads_(t_.cores.size(), 0.0) {}

bool ShapedFlows::moves(const Message& m) { return m.queued() && m.behind <= kNothing; }
bool ShapedFlows::ended(const Message& m) { return moves(m) && m.left <= kNothing; }

std::array<Op, 2> ShapedFlows::ends(const Message& m) const {
    return {t_.source[m.number], t_.target[m.number]};
}

Op ShapedFlows::first_link(const Message& m) const {
    const auto path = t_.path(m.number);
    return path.empty() ? kNone : path[0];
}

void ShapedFlows::begin(Op op, Time) {
    changed_ = true;
    const Op number = t_.message_of_op[op];
    for (Message& message : asked_)
        if (message.number == number) return message.members.push_back(op);
    asked_.push_back({.number = number, .left = t_.size[number], .members = {op}});
}

void ShapedFlows::see(std::span<const std::int32_t> threads) {
    threads_.assign(threads.begin(), threads.end());
}

void ShapedFlows::settle(Time now) {
    if (!changed_) return;
    changed_ = false;
    advance(now);
    ask(now);
    for (std::size_t place = 0; place < messages_.size(); ++place)
        if (messages_[place].begins <= now && !follows(place)) queue(messages_[place]);
    set_rates();
    find_next();
}

void ShapedFlows::take_ended(Time now, std::vector<Op>& out) {
    advance(now);
    changed_ = true;
    const auto first = out.size();
    for (const Message& message : messages_)
        if (ended(message)) out.insert(out.end(), message.members.begin(), message.members.end());
    std::erase_if(messages_, [](const Message& message) { return ended(message); });
    std::sort(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

// Those asked for at this instant come to the others.
void ShapedFlows::ask(Time now) {
    std::sort(asked_.begin(), asked_.end(),
              [](const Message& a, const Message& b) { return a.number < b.number; });
    for (Message& message : asked_) {
        const Time late = busy(message) ? shaping_.late_ns : 0;
        message.begins = now + (message.left != 0 ? shaping_.message_ns + late : 0);
        messages_.push_back(std::move(message));
    }
    asked_.clear();
}

// Whether threads take all cores at one of its ends.
bool ShapedFlows::busy(const Message& message) const {
    if (t_.cores.empty()) return false;
    const auto machines = ends(message);
    return std::any_of(machines.begin(), machines.end(), [&](Op m) {
        return static_cast<double>(threads_[m]) >= std::nearbyint(t_.cores[m]);
    });
}

// Whether the message the other way on its connection was asked for before it.
bool ShapedFlows::follows(std::size_t place) const {
    const Op other = t_.other[messages_[place].number];
    if (other == kNone) return false;
    const auto here = messages_.begin() + static_cast<std::ptrdiff_t>(place);
    return std::any_of(messages_.begin(), here,
                       [&](const Message& m) { return m.number == other; });
}

// A message whose first byte is due joins the queue of its sender's link.
void ShapedFlows::queue(Message& message) {
    const Op link = first_link(message);
    if (link == kNone) {
        message.behind = 0;
        return;
    }
    double before = 0, least = kWide;
    for (const Message& other : messages_) {
        if (!other.queued() || first_link(other) != link) continue;
        before += std::min(shaping_.window_bytes, std::max(0.0, other.left));
        least = std::min(least, other.behind);
    }
    if (!message.queued())
        message.behind = before;
    else if (message.behind <= least)
        message.behind = 0;  // whoever was before it has gone; what is left is rounding
}

// By links, with buckets that are not empty as wide as it takes; then by cores.
void ShapedFlows::set_rates() {
    moving_.clear();
    paths_.clear();
    for (Message& message : messages_) {
        if (!moves(message) || message.left <= kNothing) continue;
        moving_.push_back(&message);
        paths_.push_back(t_.path(message.number));
    }
    for (std::size_t link = 0; link < free_.size(); ++link)
        free_[link] = tokens_[link] < kFrame ? t_.capacity[link] : kWide;
    links_.share(paths_, free_, 2 / shaping_.cpu_ns_per_byte, rates_);
    for (std::size_t i = 0; i < moving_.size(); ++i) moving_[i]->rate = rates_[i];
    if (!t_.cores.empty()) share_cores();
}

// Messages that want more than most of a machine's cores are slowed to that.
void ShapedFlows::share_cores() {
    sum_loads(wanted_);
    for (std::size_t m = 0; m < wanted_.size(); ++m) {
        const double most = t_.cores[m] * kMostLoad;
        wanted_[m] = wanted_[m] > most ? most / wanted_[m] : 1.0;
    }
    for (Message* message : moving_) {
        const auto [source, target] = ends(*message);
        message->rate *= std::min(wanted_[source], wanted_[target]);
    }
    sum_loads(loads_);
}

// Cores that messages take at their rates, by machine: half the cost at either end.
void ShapedFlows::sum_loads(std::vector<double>& loads) const {
    loads.assign(t_.cores.size(), 0.0);
    const double half = shaping_.cpu_ns_per_byte / 2;
    for (const Message* message : moving_)
        for (const Op machine : ends(*message)) loads[machine] += half * message->rate;
}

// When something comes, goes, or changes the rates.
void ShapedFlows::find_next() {
    sum_used();
    next_ = kNever;
    const auto at = [&](Time instant) { next_ = std::min(next_, instant); };
    for (const Message& message : messages_) {
        if (message.begins > since_) {
            at(message.begins);
        } else if (ended(message)) {
            at(since_);
        } else if (message.rate != 0) {
            at(later(since_, whole(message.left / message.rate)));
        } else if (message.behind > 0) {
            if (const double rate = used_[first_link(message)]; rate != 0)
                at(later(since_, whole(message.behind / rate)));
        }
    }
    for (std::size_t link = 0; link < tokens_.size(); ++link) {  // buckets that run dry
        const double rate = t_.capacity[link];
        if (tokens_[link] < kFrame || !(used_[link] > rate * (1 + 1e-9))) continue;
        const Time dry = whole((tokens_[link] - kFrame / 2) / (used_[link] - rate));
        at(later(since_, std::max<Time>(1, dry)));
    }
}

// Bytes that have moved since the rates were set, and what the buckets hold.
void ShapedFlows::advance(Time now) {
    const double passed = static_cast<double>(now - since_);
    since_ = now;
    sum_used();
    for (Message& message : messages_) {
        message.left -= message.rate * passed;
        if (message.behind > 0)
            message.behind =
                std::max(0.0, message.behind - used_[first_link(message)] * passed);
    }
    for (std::size_t link = 0; link < tokens_.size(); ++link) {
        const double held = tokens_[link] + (t_.capacity[link] - used_[link]) * passed;
        tokens_[link] = std::min(t_.burst[link], std::max(0.0, held));
    }
}

void ShapedFlows::sum_used() {
    std::fill(used_.begin(), used_.end(), 0.0);
    for (const Message& message : messages_)
        for (const Op link : t_.path(message.number)) used_[link] += message.rate;
}

void MaxMin::share(const std::vector<std::span<const Op>>& paths, std::span<const double> capacity,
                   double most, std::vector<double>& rates) {
    rates.assign(paths.size(), 0.0);
    links_.clear();
    growing_.clear();
    for (std::size_t flow = 0; flow < paths.size(); ++flow) {
        growing_.push_back(static_cast<Op>(flow));
        for (const Op link : paths[flow]) {
            if (used_[link]) continue;
            used_[link] = 1;
            left_[link] = capacity[link];
            links_.push_back(link);
        }
    }
    while (!growing_.empty()) {
        rise(paths, most, rates);
        const auto full = [&](Op link) {
            return std::isfinite(capacity[link]) && left_[link] <= 1e-12 * capacity[link];
        };
        std::erase_if(growing_, [&](Op flow) {
            return !(rates[flow] < most * (1 - 1e-12)) ||
                   std::any_of(paths[flow].begin(), paths[flow].end(), full);
        });
    }
    for (const Op link : links_) used_[link] = 0;
}

// All that grow rise alike, until the first link is full or the first flow as fast as it may be.
void MaxMin::rise(const std::vector<std::span<const Op>>& paths, double most,
                  std::vector<double>& rates) {
    for (const Op link : links_) users_[link] = 0;
    double fastest = 0;
    for (const Op flow : growing_) {
        fastest = std::max(fastest, rates[flow]);
        for (const Op link : paths[flow]) ++users_[link];
    }
    double more = most - fastest;
    for (const Op link : links_)
        if (users_[link]) more = std::min(more, left_[link] / static_cast<double>(users_[link]));
    for (const Op flow : growing_) {
        rates[flow] += more;
        for (const Op link : paths[flow]) left_[link] -= more;
    }
}

}  // namespace paceline
