// Columns as `paceline/report/page/coding.py` writes them: zigzag numbers as varints of seven bits a
// byte, lowest first, or byte by byte in planes; each the number itself or, with `delta`, its
// difference to the one before.
#include <cstdint>

#include "exported.hpp"

namespace {

std::int64_t signed_of(std::uint64_t bits) {
    return static_cast<std::int64_t>(bits >> 1 ^ (0 - (bits & 1)));
}

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
                out = signed_of(bits);
                return true;
            }
        }
        return false;
    }
    bool over() const { return at_ == end_; }

  private:
    const std::uint8_t *at_, *end_;
};

class Planes {  // of `count` numbers, which take `size` bytes
  public:
    Planes(const std::uint8_t* at, std::size_t size, std::size_t count)
        : at_(at), size_(size), count_(count) {}

    bool next(std::int64_t& out) {
        std::uint64_t bits = 0;
        unsigned shift = 0;
        for (std::size_t plane = row_++; plane < size_; plane += count_, shift += 8)
            bits |= static_cast<std::uint64_t>(at_[plane]) << shift;
        out = signed_of(bits);
        return true;
    }
    bool over() const { return count_ == 0 ? size_ == 0 : size_ % count_ == 0 && size_ / count_ <= 8; }

  private:
    const std::uint8_t* at_;
    std::size_t size_, count_, row_ = 0;
};

template <class From, class T>
bool unpack(From from, bool delta, T* out, std::size_t count) {
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t value;
        if (!from.next(value)) return false;
        const std::uint64_t whole = static_cast<std::uint64_t>(value) + (delta ? before : 0);
        out[i] = static_cast<T>(before = whole);
    }
    return from.over();
}

template <class From>
bool unpack_as(const From& from, bool delta, void* out, std::size_t count, std::uint32_t width) {
    if (width == 1) return unpack(from, delta, static_cast<std::uint8_t*>(out), count);
    if (width == 4) return unpack(from, delta, static_cast<std::int32_t*>(out), count);
    return unpack(from, delta, static_cast<std::int64_t*>(out), count);
}

constexpr std::uint32_t kDelta = 1, kPlanes = 2;  // of `coding`

}  // namespace

// Whether `size` bytes hold exactly `count` numbers, which then stand at `out`, `width` bytes each.
EXPORTED(unpack_column)
std::uint32_t unpack_column(const std::uint8_t* at, std::size_t size, std::uint32_t coding,
                            void* out, std::size_t count, std::uint32_t width) {
    const bool delta = coding & kDelta;
    if (coding & kPlanes) {
        const Planes from(at, size, count);
        return from.over() && unpack_as(from, delta, out, count, width);
    }
    return unpack_as(Varints(at, size), delta, out, count, width);
}
