#include "norm_relu.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

// Loops over values are compiled for several widths of vectors; the processor chooses at load time.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define PACELINE_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define PACELINE_WIDE
#endif

namespace paceline {
namespace {

constexpr std::int64_t kLanes = 16;    // sums side by side
constexpr std::int64_t kBlock = 2048;  // values that are added up in single precision

typedef float Lanes __attribute__((vector_size(4 * kLanes)));

// The lanes that begin there, or, of fewer values, the others as `rest`.
[[gnu::always_inline]] inline void load(Lanes& out, const float* from, std::int64_t count,
                                        float rest) {
    if (count >= kLanes) {
        std::memcpy(&out, from, sizeof out);
        return;
    }
    for (std::int64_t lane = 0; lane < kLanes; ++lane) out[lane] = lane < count ? from[lane] : rest;
}

struct Sums {
    double first = 0, second = 0;

    [[gnu::always_inline]] void add(const Lanes& one, const Lanes& other) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
            first += one[lane], second += other[lane];
    }
};

PACELINE_WIDE Sums sums_of(const float* x, std::int64_t count, float origin) {
    Sums out;
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
        const std::int64_t end = std::min(count, begin + kBlock);
        Lanes one = {}, two = {}, value = {};
        for (std::int64_t i = begin; i < end; i += kLanes) {
            load(value, x + i, end - i, origin);
            const Lanes d = value - origin;
            one += d;
            two += d * d;
        }
        out.add(one, two);
    }
    return out;
}

struct Line {  // of one channel
    float scale, shift;
};

PACELINE_WIDE void cut(const float* x, std::int64_t count, Line line, float* made) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float y = x[i] * line.scale + line.shift;
        made[i] = 0.0f > y ? 0.0f : y;
    }
}

PACELINE_WIDE Sums passing_of(const float* x, const float* gradient, std::int64_t count, Line line,
                              float mean) {
    Sums out;
    const Lanes zero = {};
    for (std::int64_t begin = 0; begin < count; begin += kBlock) {
        const std::int64_t end = std::min(count, begin + kBlock);
        Lanes one = {}, two = {}, value = {}, back = {};
        for (std::int64_t i = begin; i < end; i += kLanes) {
            load(value, x + i, end - i, mean);
            load(back, gradient + i, end - i, 0.0f);
            const Lanes y = value * line.scale + line.shift;
            const Lanes passing = y <= zero ? zero : back;
            one += passing;
            two += passing * (value - mean);
        }
        out.add(one, two);
    }
    return out;
}

struct Slope {  // of one channel
    float passing, slope, offset;
};

PACELINE_WIDE void back(const float* x, const float* gradient, std::int64_t count, Line line,
                        Slope plane, float* made) {
    for (std::int64_t i = 0; i < count; ++i) {
        const float y = x[i] * line.scale + line.shift;
        const float g = y <= 0.0f ? 0.0f : gradient[i];
        made[i] = plane.passing * g + (plane.slope * x[i] + plane.offset);
    }
}

// `work(first, last)` for ranges of channels, on as many threads as there are.
template <class Work>
void by_channels(const Images& images, Work work) {
    const std::int64_t parts =
        std::clamp<std::int64_t>(images.threads, 1, std::max<std::int64_t>(images.channels, 1));
    std::vector<std::thread> others;
    for (std::int64_t i = 1; i < parts; ++i)
        others.emplace_back(work, images.channels * i / parts, images.channels * (i + 1) / parts);
    work(0, images.channels / parts);
    for (auto& other : others) other.join();
}

// `row(channel, first value)` for each channel of each sample, on the threads.
template <class Row>
void by_rows(const Images& images, Row row) {
    by_channels(images, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t n = 0; n < images.samples; ++n)
            for (std::int64_t c = first; c < last; ++c)
                row(c, (n * images.channels + c) * images.values);
    });
}

}  // namespace

void channel_moments(const float* x, Images images, float* mean, float* variance) {
    std::vector<Sums> sums(images.channels);
    by_rows(images, [&](std::int64_t c, std::int64_t at) {
        const Sums row = sums_of(x + at, images.values, x[c * images.values]);
        sums[c].first += row.first;
        sums[c].second += row.second;
    });
    const double count = static_cast<double>(images.samples * images.values);
    for (std::int64_t c = 0; c < images.channels; ++c) {
        const double off = sums[c].first / count;
        mean[c] = static_cast<float>(x[c * images.values] + off);
        variance[c] = static_cast<float>(std::max(0.0, sums[c].second / count - off * off));
    }
}

void norm_relu(const float* x, Images images, Affine affine, float* made) {
    by_rows(images, [&](std::int64_t c, std::int64_t at) {
        cut(x + at, images.values, {affine.scale[c], affine.shift[c]}, made + at);
    });
}

void passing_sums(const float* x, const float* gradient, Images images, Affine affine,
                  const float* mean, float* sum, float* product) {
    std::vector<Sums> sums(images.channels);
    by_rows(images, [&](std::int64_t c, std::int64_t at) {
        const Sums row = passing_of(x + at, gradient + at, images.values,
                                    {affine.scale[c], affine.shift[c]}, mean[c]);
        sums[c].first += row.first;
        sums[c].second += row.second;
    });
    for (std::int64_t c = 0; c < images.channels; ++c) {
        sum[c] = static_cast<float>(sums[c].first);
        product[c] = static_cast<float>(sums[c].second);
    }
}

void norm_relu_back(const float* x, const float* gradient, Images images, Affine affine,
                    Plane plane, float* made) {
    by_rows(images, [&](std::int64_t c, std::int64_t at) {
        back(x + at, gradient + at, images.values, {affine.scale[c], affine.shift[c]},
             {plane.passing[c], plane.slope[c], plane.offset[c]}, made + at);
    });
}

}  // namespace paceline
