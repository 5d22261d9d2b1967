#include "kineto.hpp"

#include <algorithm>
#include <array>

#include "json_walk.hpp"

namespace paceline {
namespace {

using namespace json;

// Text that is no whole number is the plain scan's to judge.
bool is_moment(const Value& value) {
    if (!value.given) return true;
    return (!value.quoted || is_whole_text(value.text)) && at_most(value.text, kLatestMicroseconds);
}

// Numbers from kTextBase down stand for text.
bool is_place(const Value& value) {
    return fits(value) && (!is_number(value) || value.text[0] != '-' || decimal(value.text, 0) > kTextBase);
}

int64_t whole_number(const Value& value) {
    if (!value.given || (value.quoted && !is_whole_text(value.text))) return kAbsent;
    return decimal(value.text, 0);
}

int64_t nanoseconds(const Value& value) {
    return value.given ? decimal(value.text, 3) : 0;
}

// What tells the shapes of an operator's inputs, or how a kernel was launched: kept as it stands.
constexpr std::array<std::string_view, 8> kForm = {
    "Input Dims", "Input Strides", "Input type", "Concrete Inputs",
    "grid", "block", "registers per thread", "shared memory"};

struct Args {
    std::array<std::string_view, kForm.size()> form;
    Value correlation, external, sequence, fwd_thread, record, size, memory, address, device_type,
        device_id, stream;
    bool told = false;  // of communication or synchronisation
};

struct Event {
    Value ph, name, cat, pid, tid, ts, dur, id;
    std::string_view args;
    Args arg;
};

Value* slot(Args& args, std::string_view key) {
    switch (key.size()) {
        case 4:
            return key == "Addr" ? &args.address : nullptr;
        case 5:
            return key == "bytes" ? &args.size : key == "Bytes" ? &args.memory : nullptr;
        case 6:
            return key == "stream" ? &args.stream : nullptr;
        case 9:
            return key == "Device Id" ? &args.device_id : nullptr;
        case 11:
            return key == "correlation" ? &args.correlation
                   : key == "External id" ? &args.external
                   : key == "Device Type" ? &args.device_type
                                          : nullptr;
        case 13:
            return key == "Fwd thread id" ? &args.fwd_thread : nullptr;
        case 15:
            return key == "Sequence number" ? &args.sequence : nullptr;
        case 18:
            return key == "Record function id" ? &args.record : nullptr;
        default:
            return nullptr;
    }
}

std::string_view* form_slot(Args& args, std::string_view key) {
    if (key.empty() || (key[0] != 'I' && key[0] != 'C' && key[0] != 'g' && key[0] != 'b' &&
                        key[0] != 'r' && key[0] != 's'))
        return nullptr;
    for (std::size_t i = 0; i < kForm.size(); ++i)
        if (key == kForm[i]) return &args.form[i];
    return nullptr;
}

// One JSON object of what is told, in the order of `kForm`; empty where nothing is.
void write_form(const Args& args, std::string& text) {
    text.clear();
    for (std::size_t i = 0; i < kForm.size(); ++i) {
        if (args.form[i].empty()) continue;
        text += text.empty() ? '{' : ',';
        text.append("\"").append(kForm[i]).append("\":").append(args.form[i]);
    }
    if (!text.empty()) text += '}';
}

Step take_args(const char*& at, const char* end, Event& event) {
    if (*at != '{') return skip_value(at, end);
    const char* const begin = at;
    const Step s = walk_object(++at, end, [&](std::string_view key, const char*& a, const char* e) {
        if (Value* value = slot(event.arg, key)) return take_value(a, e, *value);
        if (std::string_view* part = form_slot(event.arg, key)) {
            const char* const from = a;
            const Step skipped = skip_value(a, e);
            *part = {from, static_cast<std::size_t>(a - from)};
            return skipped;
        }
        if (key == "cuda_sync_kind" || key == "Collective name") {
            Value told;
            const Step taken = take_value(a, e, told);
            event.arg.told |= told.given && !told.text.empty();
            return taken;
        }
        return skip_value(a, e);
    });
    if (s == Step::kOk) event.args = {begin, static_cast<std::size_t>(at - begin)};
    return s;
}

Value* slot(Event& event, std::string_view key) {
    switch (key.size()) {
        case 2:
            return key == "ph"   ? &event.ph
                   : key == "ts" ? &event.ts
                   : key == "id" ? &event.id
                                 : nullptr;
        case 3:
            return key == "cat"   ? &event.cat
                   : key == "pid" ? &event.pid
                   : key == "tid" ? &event.tid
                   : key == "dur" ? &event.dur
                                  : nullptr;
        case 4:
            return key == "name" ? &event.name : nullptr;
        default:
            return nullptr;
    }
}

bool holds(const Args& args) {
    for (const Value* value : {&args.correlation, &args.external, &args.sequence, &args.fwd_thread,
                               &args.record, &args.size, &args.memory, &args.address,
                               &args.device_type, &args.device_id, &args.stream})
        if (!fits(*value)) return false;
    return true;
}

// Whether every number that is read fits its column.
bool holds(const Event& event) {
    return is_place(event.pid) && is_place(event.tid) && is_moment(event.ts) &&
           is_moment(event.dur) && fits(event.id) && holds(event.arg);
}

bool starts_with(std::string_view text, std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
}

bool is_detailed(std::string_view name) {
    for (const std::string_view prefix : {"nccl", "gloo:", "mpi:", "ucc:", "record_param_comms", "c10d::"})
        if (starts_with(name, prefix)) return true;
    return false;
}

}  // namespace

void KinetoScan::feed(const char* data, std::size_t size) {
    buffer_.erase(0, done_);
    done_ = 0;
    buffer_.append(data, size);
    run(false);
}

void KinetoScan::finish() {
    run(true);
    const std::string rest = buffer_.substr(done_);
    if (where_ == Where::kAfter) header += rest;
    if (where_ == Where::kBefore) header = rest;
    whole = where_ != Where::kEvents;  // Python checks that the header is an object
    buffer_.clear();
}

// Everything up to the array of events belongs to the header.
bool KinetoScan::open_events() {
    const std::size_t first = buffer_.find_first_not_of(" \n\t\r");
    if (first == std::string::npos) return false;
    std::size_t open = first;
    if (buffer_[first] != '[') {
        const std::size_t key = buffer_.find("\"traceEvents\"");
        if (key == std::string::npos) return false;
        open = buffer_.find_first_not_of(" \n\t\r:", key + 13);
        if (open == std::string::npos || buffer_[open] != '[') return false;
    }
    header = buffer_.substr(0, open) + "[]";
    done_ = open + 1;
    where_ = Where::kEvents;
    return true;
}

void KinetoScan::run(bool last) {
    if (where_ == Where::kBefore && !open_events()) return;
    const char* const end = buffer_.data() + buffer_.size();
    while (where_ == Where::kEvents) {
        const char* at = buffer_.data() + done_;
        while (at < end && (is_space(*at) || *at == ',')) ++at;
        if (at == end) return;
        if (*at == ']') {
            where_ = Where::kAfter;
            done_ = static_cast<std::size_t>(at + 1 - buffer_.data());
            break;
        }
        const char* const begin = at;
        const Result result = event(at, end);
        if (result == Result::kDone) {
            done_ = static_cast<std::size_t>(at - buffer_.data());
            continue;
        }
        const std::size_t from = static_cast<std::size_t>(begin - buffer_.data());
        if (result == Result::kBeyond) {
            done_ = static_cast<std::size_t>(at - buffer_.data());
            damaged.push_back(buffer_.substr(from, done_ - from));
            continue;
        }
        if (result == Result::kMore && !last) {
            if (buffer_.size() - from < (1u << 22)) return;  // wait for the rest of the event
        }
        const std::size_t next = resync(from);
        if (next == std::string::npos) {
            if (!last) return;
            damaged.push_back(buffer_.substr(from));
            done_ = buffer_.size();
            return;
        }
        damaged.push_back(buffer_.substr(from, next - from));
        done_ = next;
    }
    if (where_ == Where::kAfter) {
        header.append(buffer_, done_);
        done_ = buffer_.size();
    }
}

// The end of the event that starts at `from`: a brace, a comma, and an object that starts as events
// do; npos where the buffer holds none.
std::size_t KinetoScan::resync(std::size_t from) const {
    static constexpr std::array<std::string_view, 10> keys = {
        "\"ph\"", "\"name\"", "\"cat\"", "\"pid\"", "\"tid\"", "\"ts\"", "\"id\"", "\"args\"", "\"dur\"", "\"s\""};
    for (std::size_t at = buffer_.find('}', from); at != std::string::npos;
         at = buffer_.find('}', at + 1)) {
        std::size_t next = buffer_.find_first_not_of(" \n\t\r", at + 1);
        if (next == std::string::npos) return next;
        if (buffer_[next] == ']') {
            const std::size_t after = buffer_.find_first_not_of(" \n\t\r", next + 1);
            if (after == std::string::npos || buffer_[after] == '}' ||
                (buffer_[after] == ',' && buffer_.find("\"args\"", after) == std::string::npos))
                return at + 1;
        }
        if (buffer_[next] != ',') continue;
        next = buffer_.find_first_not_of(" \n\t\r", next + 1);
        if (next == std::string::npos || buffer_[next] != '{') continue;
        next = buffer_.find_first_not_of(" \n\t\r", next + 1);
        if (next == std::string::npos) continue;
        for (const std::string_view key : keys)
            if (buffer_.compare(next, key.size(), key) == 0) return at + 1;
    }
    return std::string::npos;
}

int32_t TextPool::intern(std::string_view text) {
    const auto known = index_.find(text);
    if (known != index_.end()) return known->second;
    kept_.emplace_back(text);
    const auto row = static_cast<int32_t>(kept_.size() - 1);
    index_.emplace(kept_.back(), row);
    return row;
}

KinetoScan::Result KinetoScan::event(const char*& at, const char* end) {
    const char* const begin = at;
    if (*at != '{') return Result::kBad;
    Event found;
    const Step s = walk_object(++at, end, [&](std::string_view key, const char*& a, const char* e) {
        if (key == "args") return take_args(a, e, found);
        Value* value = slot(found, key);
        return value ? take_value(a, e, *value) : skip_value(a, e);
    });
    if (s != Step::kOk) return s == Step::kMore ? Result::kMore : Result::kBad;
    if (!holds(found)) return Result::kBeyond;
    const auto number = [this](const Value& value) {
        if (!value.given) return int64_t{0};
        return value.quoted ? kTextBase - names_.intern(value.text) : decimal(value.text, 0);
    };
    const char ph = found.ph.text.size() == 1 ? found.ph.text[0] : '\0';
    const Args& args = found.arg;
    if (ph == 'X' || ph == 'B' || ph == 'E') {
        if (args.told || is_detailed(found.name.text))
            details.emplace_back(static_cast<int64_t>(ranges.mark.size()), found.args.empty() ? "{}" : std::string(found.args));
        ranges.mark.push_back(static_cast<uint8_t>(ph));
        ranges.name.push_back(names_.intern(found.name.text));
        ranges.category.push_back(names_.intern(found.cat.text));
        ranges.pid.push_back(number(found.pid));
        ranges.tid.push_back(number(found.tid));
        ranges.start_ns.push_back(nanoseconds(found.ts));
        ranges.dur_ns.push_back(nanoseconds(found.dur));
        ranges.correlation.push_back(whole_number(args.correlation));
        ranges.external.push_back(whole_number(args.external));
        ranges.sequence.push_back(whole_number(args.sequence));
        ranges.fwd_thread.push_back(whole_number(args.fwd_thread));
        ranges.record.push_back(whole_number(args.record));
        ranges.size_bytes.push_back(whole_number(args.size));
        ranges.stream.push_back(whole_number(args.stream));
        write_form(args, form_);
        ranges.form.push_back(form_.empty() ? -1 : forms_.intern(form_));
    } else if ((ph == 's' || ph == 'f') && found.cat.text == "fwdbwd") {
        arrows.mark.push_back(static_cast<uint8_t>(ph));
        arrows.id.push_back(whole_number(found.id));
        arrows.pid.push_back(number(found.pid));
        arrows.tid.push_back(number(found.tid));
        arrows.at_ns.push_back(nanoseconds(found.ts));
    } else if (ph == 'i' && found.name.text == "[memory]") {
        memory.pid.push_back(number(found.pid));
        memory.tid.push_back(number(found.tid));
        memory.at_ns.push_back(nanoseconds(found.ts));
        memory.address.push_back(whole_number(args.address));
        memory.delta_bytes.push_back(whole_number(args.memory));
        memory.device_type.push_back(whole_number(args.device_type));
        memory.device.push_back(whole_number(args.device_id));
    } else if (ph == 'M') {
        metadata.emplace_back(begin, static_cast<std::size_t>(at - begin));
    }
    return Result::kDone;
}

}  // namespace paceline
