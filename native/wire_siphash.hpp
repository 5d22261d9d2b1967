// SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed checksum of short messages.
//
// Whoever lacks the job's key cannot make a packet that passes. Also the digest by which replicas
// are compared, there with a key that all know.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace paceline::wire {

static_assert(std::endian::native == std::endian::little, "packets are written as memory has them");

using Key = std::array<std::uint64_t, 2>;

class SipHash {
public:
    explicit SipHash(const Key& key)
        : v0_(key[0] ^ 0x736f6d6570736575ULL), v1_(key[1] ^ 0x646f72616e646f6dULL),
          v2_(key[0] ^ 0x6c7967656e657261ULL), v3_(key[1] ^ 0x7465646279746573ULL) {}

    // All but the last call must hand over a multiple of eight bytes.
    void add(std::span<const std::uint8_t> bytes) {
        const std::size_t words = bytes.size() / 8;
        for (std::size_t i = 0; i < words; ++i) mix(load(bytes.data() + 8 * i, 8));
        rest_ = load(bytes.data() + 8 * words, bytes.size() % 8);
        length_ += bytes.size();
    }

    std::uint64_t digest() {
        mix(rest_ | (static_cast<std::uint64_t>(length_ & 0xff) << 56));
        v2_ ^= 0xff;
        for (int i = 0; i < 4; ++i) round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

private:
    static std::uint64_t load(const std::uint8_t* from, std::size_t count) {
        std::uint64_t word = 0;
        if (count) std::memcpy(&word, from, count);
        return word;
    }
    void mix(std::uint64_t word) {
        v3_ ^= word;
        round();
        round();
        v0_ ^= word;
    }
    void round() {
        v0_ += v1_; v1_ = std::rotl(v1_, 13); v1_ ^= v0_; v0_ = std::rotl(v0_, 32);
        v2_ += v3_; v3_ = std::rotl(v3_, 16); v3_ ^= v2_;
        v0_ += v3_; v3_ = std::rotl(v3_, 21); v3_ ^= v0_;
        v2_ += v1_; v1_ = std::rotl(v1_, 17); v1_ ^= v2_; v2_ = std::rotl(v2_, 32);
    }

    std::uint64_t v0_, v1_, v2_, v3_;
    std::uint64_t rest_ = 0;
    std::size_t length_ = 0;
};

inline std::uint64_t siphash(const Key& key, std::span<const std::uint8_t> bytes) {
    SipHash hash(key);
    hash.add(bytes);
    return hash.digest();
}

}  // namespace paceline::wire
