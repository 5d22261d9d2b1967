// Columns as `paceline/report/page/coding.py` writes them: numbers as zigzag varints of seven bits a
// byte, lowest first, each the number itself or, with `delta`, its difference to the one before.
#include <cstdint>

#include "exported.hpp"

namespace {

class Varints {
  public:
    Varints(const std::uint8_t* at, std::size_t size) : at_(at), end_(at + size) {}

    // False where the bytes end within a number.
    bool next(std::int64_t& out) {
        std::uint64_t bits = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            if (at_ == end_) return false;
            bits |= static_cast<std::uint64_t>(*at_ & 0x7f) << shift;
            if (!(*at_++ & 0x80)) {
                out = static_cast<std::int64_t>(bits >> 1 ^ (0 - (bits & 1)));
                return true;
            }
        }
        return false;
    }
    bool over() const { return at_ == end_; }

  private:
    const std::uint8_t *at_, *end_;
};

template <class T>
bool unpack(Varints from, bool delta, T* out, std::size_t count) {
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t value;
        if (!from.next(value)) return false;
        const std::uint64_t whole = static_cast<std::uint64_t>(value) + (delta ? before : 0);
        out[i] = static_cast<T>(before = whole);
    }
    return from.over();
}

}  // namespace

// Whether `size` bytes hold exactly `count` numbers, which then stand at `out`, `width` bytes each.
EXPORTED(unpack_column)
std::uint32_t unpack_column(const std::uint8_t* at, std::size_t size, std::uint32_t delta,
                            void* out, std::size_t count, std::uint32_t width) {
    const Varints from(at, size);
    if (width == 1) return unpack(from, delta, static_cast<std::uint8_t*>(out), count);
    if (width == 4) return unpack(from, delta, static_cast<std::int32_t*>(out), count);
    return unpack(from, delta, static_cast<std::int64_t*>(out), count);
}
