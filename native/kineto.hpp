// Chrome-format JSON -> columns, streaming: feed chunks, take what was found. The specification is
// `plain_scan` in src/paceline/trace/readers/scan.py; damaged events are handed back as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

inline constexpr int64_t kAbsent = -1;
inline constexpr int64_t kTextBase = -(int64_t{1} << 40);
inline constexpr uint64_t kLatestMicroseconds = (uint64_t{1} << 61) / 1000;

// Columns in the order of the Python dataclasses of the same names.
struct ScanRanges {
    std::vector<uint8_t> mark;
    std::vector<int32_t> name, category;
    std::vector<int64_t> pid, tid, start_ns, dur_ns, correlation, external, sequence, fwd_thread,
        record, size_bytes, stream;
    std::vector<int32_t> form;
};

struct ScanArrows {
    std::vector<uint8_t> mark;
    std::vector<int64_t> id, pid, tid, at_ns;
};

struct ScanMemory {
    std::vector<int64_t> pid, tid, at_ns, address, delta_bytes, device_type, device;
};

// Texts by number, each kept once.
class TextPool {
public:
    TextPool() = default;
    TextPool(const TextPool&) = delete;
    TextPool& operator=(const TextPool&) = delete;

    int32_t intern(std::string_view text);
    std::vector<std::string> texts() const { return {kept_.begin(), kept_.end()}; }

private:
    std::unordered_map<std::string_view, int32_t> index_;
    std::deque<std::string> kept_;  // never moves its texts
};

class KinetoScan {
public:
    KinetoScan() = default;
    KinetoScan(const KinetoScan&) = delete;
    KinetoScan& operator=(const KinetoScan&) = delete;

    void feed(const char* data, std::size_t size);
    void finish();  // no more will come

    ScanRanges ranges;
    ScanArrows arrows;
    ScanMemory memory;
    std::vector<std::pair<int64_t, std::string>> details;  // row of ranges -> its args
    std::vector<std::string> metadata;                     // whole M events
    std::vector<std::string> damaged;                      // text of events that are no JSON, or hold numbers too large
    std::string header;                                    // the document without its events
    std::vector<std::string> names() const { return names_.texts(); }  // raw JSON text, still escaped
    std::vector<std::string> forms() const { return forms_.texts(); }  // JSON objects
    bool whole = false;

private:
    enum class Where { kBefore, kEvents, kAfter };
    enum class Result { kDone, kMore, kBad, kBeyond };

    void run(bool last);
    bool open_events();
    std::size_t resync(std::size_t from) const;
    Result event(const char*& at, const char* end);
    std::string buffer_;
    std::size_t done_ = 0;  // of the buffer
    Where where_ = Where::kBefore;
    TextPool names_, forms_;
    std::string form_;  // reused from event to event
};

}  // namespace paceline
