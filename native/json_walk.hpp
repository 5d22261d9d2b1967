// JSON walked in place: views into the buffer, no tree, and "more is needed" told from "no JSON".
#pragma once

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace paceline::json {

enum class Step { kOk, kMore, kBad };

inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline Step skip_space(const char*& at, const char* end) {
    while (at < end && is_space(*at)) ++at;
    return at < end ? Step::kOk : Step::kMore;
}

// `at` is behind the opening quote; afterwards behind the closing one. False escapes are bad.
inline Step skip_string(const char*& at, const char* end, std::string_view* text) {
    const char* const begin = at;
    while (at < end) {
#if defined(__SSE2__)
        const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\');
        while (end - at >= 16) {
            const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
            const int hit = _mm_movemask_epi8(
                _mm_or_si128(_mm_cmpeq_epi8(part, quote), _mm_cmpeq_epi8(part, slash)));
            if (hit) {
                at += __builtin_ctz(static_cast<unsigned>(hit));
                break;
            }
            at += 16;
        }
#endif
        while (at < end && *at != '"' && *at != '\\') ++at;
        if (at == end) return Step::kMore;
        if (*at == '"') {
            if (text) *text = {begin, static_cast<std::size_t>(at - begin)};
            ++at;
            return Step::kOk;
        }
        if (end - at < 2) return Step::kMore;
        if (!std::strchr("\"\\/bfnrtu", at[1]) || at[1] == '\0') return Step::kBad;
        if (at[1] == 'u') {
            if (end - at < 6) return Step::kMore;
            for (int i = 2; i < 6; ++i)
                if (!std::isxdigit(static_cast<unsigned char>(at[i]))) return Step::kBad;
            at += 4;
        }
        at += 2;
    }
    return Step::kMore;
}

inline bool is_plain(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '-' || c == '+' || c == '.';
}

// A number, true, false or null; NaN and Infinity are no JSON and make the event damaged.
inline Step skip_plain(const char*& at, const char* end, std::string_view* text) {
    const char* const begin = at;
    while (at < end && is_plain(*at)) ++at;
    if (at == end) return Step::kMore;
    const std::string_view found{begin, static_cast<std::size_t>(at - begin)};
    if (found.empty()) return Step::kBad;
    const bool number = (found[0] >= '0' && found[0] <= '9') ||
                        (found[0] == '-' && found.size() > 1 && found[1] >= '0' && found[1] <= '9');
    if (!number && found != "true" && found != "false" && found != "null") return Step::kBad;
    if (text) *text = found;
    return Step::kOk;
}

inline Step skip_value(const char*& at, const char* end);

inline Step skip_array(const char*& at, const char* end) {
    bool first = true;
    for (;;) {
        if (skip_space(at, end) == Step::kMore) return Step::kMore;
        if (*at == ']' && first) break;
        if (const Step s = skip_value(at, end); s != Step::kOk) return s;
        if (skip_space(at, end) == Step::kMore) return Step::kMore;
        first = false;
        if (*at == ']') break;
        if (*at++ != ',') return Step::kBad;
    }
    ++at;
    return Step::kOk;
}

// Walks an object whose `{` is behind `at`; take(key, at, end) consumes the value.
template <class Take>
inline Step walk_object(const char*& at, const char* end, Take take) {
    bool first = true;
    for (;;) {
        if (skip_space(at, end) == Step::kMore) return Step::kMore;
        if (*at == '}' && first) break;
        if (*at++ != '"') return Step::kBad;
        std::string_view key;
        if (const Step s = skip_string(at, end, &key); s != Step::kOk) return s;
        if (skip_space(at, end) == Step::kMore) return Step::kMore;
        if (*at++ != ':') return Step::kBad;
        if (skip_space(at, end) == Step::kMore) return Step::kMore;
        if (const Step s = take(key, at, end); s != Step::kOk) return s;
        if (skip_space(at, end) == Step::kMore) return Step::kMore;
        first = false;
        if (*at == '}') break;
        if (*at++ != ',') return Step::kBad;
    }
    ++at;
    return Step::kOk;
}

inline Step skip_value(const char*& at, const char* end) {
    switch (*at) {
        case '"':
            return skip_string(++at, end, nullptr);
        case '[':
            return skip_array(++at, end);
        case '{':
            return walk_object(++at, end, [](std::string_view, const char*& a, const char* e) {
                return skip_value(a, e);
            });
        default:
            return skip_plain(at, end, nullptr);
    }
}

// A value as text; a string without its quotes. `quoted` tells the two apart.
struct Value {
    std::string_view text;
    bool quoted = false;
    bool given = false;
};

inline Step take_value(const char*& at, const char* end, Value& value) {
    value.given = true;
    if (*at == '"') {
        value.quoted = true;
        return skip_string(++at, end, &value.text);
    }
    if (*at == '[' || *at == '{') {
        value.given = false;
        return skip_value(at, end);
    }
    const Step s = skip_plain(at, end, &value.text);
    if (s == Step::kOk && (value.text == "null" || value.text == "true" || value.text == "false"))
        value.given = false;
    return s;
}

// Decimal text times 10^digits, cut off; the integer path covers all that profilers write.
inline int64_t decimal(std::string_view text, int digits) {
    if (text.find_first_of("eE") != std::string_view::npos)
        return static_cast<int64_t>(std::strtod(std::string(text).c_str(), nullptr) *
                                    std::pow(10.0, digits));
    const bool negative = !text.empty() && text[0] == '-';
    int64_t value = 0;
    bool fraction = false;
    for (std::size_t i = negative; i < text.size(); ++i) {
        if (text[i] == '.') {
            fraction = true;
        } else if (!fraction) {
            value = value * 10 + (text[i] - '0');
        } else if (digits > 0) {
            value = value * 10 + (text[i] - '0');
            --digits;
        } else {
            break;
        }
    }
    for (; digits > 0; --digits) value *= 10;
    return negative ? -value : value;
}

// Whether a number's whole part is at most `limit` in size; numbers beyond are the plain scan's to judge.
inline bool at_most(std::string_view text, uint64_t limit) {
    uint64_t whole = 0;
    bool fraction = false;
    const std::size_t first = !text.empty() && text[0] == '-';
    for (std::size_t i = first; i < text.size(); ++i) {
        if ((text[i] | 0x20) == 'e')
            return std::fabs(std::strtod(std::string(text).c_str(), nullptr)) < static_cast<double>(limit);
        if (text[i] == '.') fraction = true;
        if (fraction) continue;
        if (i - first >= 19) return false;
        whole = whole * 10 + static_cast<uint64_t>(text[i] - '0');
    }
    return whole <= limit;
}

// Whether text is a whole number, as profilers write it in quotes: a sign, and up to 18 digits.
inline bool is_whole_text(std::string_view text) {
    if (!text.empty() && text[0] == '-') text.remove_prefix(1);
    return !text.empty() && text.size() <= 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

inline bool is_number(const Value& value) {
    return value.given && !value.quoted;
}

inline bool fits(const Value& value) {
    return !is_number(value) || at_most(value.text, INT64_MAX);
}

}  // namespace paceline::json
