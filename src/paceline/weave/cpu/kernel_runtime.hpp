// What every generated kernel stands on: chunks, flags, and waiting that ends when a peer dies.
// The text of this file is put in front of each generated source.
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>
#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#endif

namespace paceline {

// Filled in by Python; `Team` in team.py is its twin.
struct Team {
    int32_t rank, size;
    int32_t fd;               // the segment: a byte lock per rank is its sign of life
    uint32_t epoch;           // number of this step, never 0
    int64_t timeout_ns;
    int64_t chunks;
    uint32_t* ready;          // [size][chunks]: this rank's input of this chunk is there
    uint32_t* done;           // [phases][chunks]: the chunk's result is with everybody
    uint64_t* cursor;         // [phases][size], a cache line apart: next chunk of a rank's share
    uint32_t* stop;           // a rank that failed says so here: 1 + its rank
};

enum Outcome : int32_t { FINE = 0, TIMED_OUT = -1000, STOPPED = -2000 };  // -1 - r: rank r died

constexpr int64_t CURSOR_STRIDE = 8;  // 64 bytes: no two ranks' cursors on one line

inline int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t(t.tv_sec) * 1000000000 + t.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// The rank whose process has ended, or -1: its lock on its own byte is gone.
inline int dead_peer(const Team& t) {
    for (int r = 0; r < t.size; ++r) {
        if (r == t.rank) continue;
        struct flock query{};
        query.l_type = F_WRLCK;
        query.l_whence = SEEK_SET;
        query.l_start = r;
        query.l_len = 1;
        if (fcntl(t.fd, F_GETLK, &query) == 0 && query.l_type == F_UNLCK) return r;
    }
    return -1;
}

// Spin briefly, then yield (ranks may outnumber cores), and look after the peers now and then.
template <class Test> inline int32_t wait_until(const Team& t, Test&& test) {
    for (int i = 0; i < 4000; ++i) {
        if (test()) return FINE;
        relax();
    }
    const int64_t began = now_ns();
    int64_t looked = began;
    while (!test()) {
        sched_yield();
        const int64_t now = now_ns();
        if (now - looked < 2000000) continue;
        looked = now;
        if (__atomic_load_n(t.stop, __ATOMIC_ACQUIRE)) return STOPPED;
        if (int r = dead_peer(t); r >= 0 && !test())  // one that says so first gives up its lock next
            return __atomic_load_n(t.stop, __ATOMIC_ACQUIRE) ? int32_t(STOPPED) : -1 - r;
        if (now - began > t.timeout_ns) return TIMED_OUT;
        timespec nap{0, 50000};
        nanosleep(&nap, nullptr);
    }
    return FINE;
}

inline void publish(const Team& t) {
    for (int64_t c = 0; c < t.chunks; ++c)
        __atomic_store_n(t.ready + t.rank * t.chunks + c, t.epoch, __ATOMIC_RELEASE);
}

inline int32_t wait_ready(const Team& t, int64_t chunk) {
    for (int r = 0; r < t.size; ++r) {
        const uint32_t* flag = t.ready + r * t.chunks + chunk;
        int32_t outcome = wait_until(
            t, [&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == t.epoch; });
        if (outcome != FINE) return outcome;
    }
    return FINE;
}

// The share of chunks that rank r begins with: [first, last).
inline int64_t share(const Team& t, int r) { return t.chunks * r / t.size; }

// Next chunk of rank r's share in this phase, or -1. Any rank may take from any share, so a rank
// that the system has put aside does not hold up the rest.
inline int64_t claim(const Team& t, int phase, int r) {
    uint64_t* cursor = t.cursor + (int64_t(phase) * t.size + r) * CURSOR_STRIDE;
    const int64_t count = share(t, r + 1) - share(t, r);
    uint64_t seen = __atomic_load_n(cursor, __ATOMIC_ACQUIRE);
    for (;;) {
        const int32_t ahead = int32_t(uint32_t(seen >> 32) - t.epoch);
        if (ahead > 0) return -1;  // all of this step is done: a peer has begun the next one
        const int64_t next = ahead == 0 ? int64_t(seen & 0xffffffffu) : 0;
        if (next >= count) return -1;
        const uint64_t taken = (uint64_t(t.epoch) << 32) | uint64_t(next + 1);
        if (__atomic_compare_exchange_n(cursor, &seen, taken, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return share(t, r) + next;
    }
}

inline void mark_done(const Team& t, int phase, int64_t chunk) {
    __atomic_store_n(t.done + phase * t.chunks + chunk, t.epoch, __ATOMIC_RELEASE);
}

inline int32_t wait_done(const Team& t, int phase) {
    for (int64_t c = 0; c < t.chunks; ++c) {
        const uint32_t* flag = t.done + phase * t.chunks + c;
        int32_t outcome = wait_until(
            t, [&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == t.epoch; });
        if (outcome != FINE) return outcome;
    }
    return FINE;
}

// Run `work(chunk)` over all chunks of one phase together with the peers, own share first.
template <class Work> inline int32_t run_phase(const Team& t, int phase, bool first, Work&& work) {
    for (int k = 0; k < t.size; ++k) {
        const int r = (t.rank + k) % t.size;
        for (int64_t c; (c = claim(t, phase, r)) >= 0;) {
            if (first)
                if (int32_t outcome = wait_ready(t, c); outcome != FINE) return outcome;
            work(c);
            mark_done(t, phase, c);
        }
    }
    return wait_done(t, phase);
}

// Vectors ---------------------------------------------------------------------------------------
#if defined(__AVX512F__)
constexpr int WIDTH = 16;
typedef float vec __attribute__((vector_size(64)));
inline vec vector_root(vec x) { return (vec)_mm512_sqrt_ps((__m512)x); }
inline vec vector_mul_add(vec a, vec b, vec c) {
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline void stream_store(float* p, vec x) { _mm512_stream_ps(p, (__m512)x); }
inline void fence() { _mm_sfence(); }
#elif defined(__AVX__)
constexpr int WIDTH = 8;
typedef float vec __attribute__((vector_size(32)));
inline vec vector_root(vec x) { return (vec)_mm256_sqrt_ps((__m256)x); }
#if defined(__FMA__)
inline vec vector_mul_add(vec a, vec b, vec c) {
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
#else
inline vec vector_mul_add(vec a, vec b, vec c) {
    for (int i = 0; i < WIDTH; ++i) a[i] = std::fma(a[i], b[i], c[i]);
    return a;
}
#endif
inline void stream_store(float* p, vec x) { _mm256_stream_ps(p, (__m256)x); }
inline void fence() { _mm_sfence(); }
#else
constexpr int WIDTH = 4;
typedef float vec __attribute__((vector_size(16)));
inline vec vector_root(vec x) {
    for (int i = 0; i < WIDTH; ++i) x[i] = std::sqrt(x[i]);
    return x;
}
inline vec vector_mul_add(vec a, vec b, vec c) {
    for (int i = 0; i < WIDTH; ++i) a[i] = std::fma(a[i], b[i], c[i]);
    return a;
}
inline void stream_store(float* p, vec x) { std::memcpy(p, &x, sizeof x); }
inline void fence() {}
#endif
typedef double wide __attribute__((vector_size(8 * WIDTH)));
typedef int32_t mask __attribute__((vector_size(4 * WIDTH)));

// One body is generated for both: `vec` for the aligned middle of a chunk, `float` for its ends.
template <class V> struct Lane;

template <> struct Lane<float> {
    using Wide = double;
    static float splat(float x) { return x; }
    static float load(const float* p, int64_t i, int64_t) { return p[i]; }
    static void store(float* p, int64_t i, float x) { p[i] = x; }
    static void stream(float* p, int64_t i, float x) { p[i] = x; }
    static float root(float x) { return std::sqrt(x); }
    static float mul_add(float a, float b, float c) { return std::fma(a, b, c); }
    static double widen(float x) { return x; }
    static bool finite(float x) { return std::isfinite(x); }
    template <class F> static float each(float x, F f) { return f(x); }
    template <class F> static float pair(float x, float y, F f) { return f(x, y); }
    template <class F> static float indexed(float x, int64_t i, F f) { return f(x, i); }
};

template <> struct Lane<vec> {
    using Wide = wide;
    static vec splat(float x) { return x - vec{}; }
    // `size` is what the index wraps at: a multiple of WIDTH, or the whole, so no vector straddles.
    static vec load(const float* p, int64_t i, int64_t) {
        vec x;
        std::memcpy(&x, p + i, sizeof x);
        return x;
    }
    static void store(float* p, int64_t i, vec x) { std::memcpy(p + i, &x, sizeof x); }
    static void stream(float* p, int64_t i, vec x) { stream_store(p + i, x); }
    static vec root(vec x) { return vector_root(x); }
    static vec mul_add(vec a, vec b, vec c) { return vector_mul_add(a, b, c); }
    static wide widen(vec x) { return __builtin_convertvector(x, wide); }
    static mask finite(vec x) { return (x - x) == (x - x); }
    template <class F> static vec each(vec x, F f) {
        for (int k = 0; k < WIDTH; ++k) x[k] = f(x[k]);
        return x;
    }
    template <class F> static vec pair(vec x, vec y, F f) {
        for (int k = 0; k < WIDTH; ++k) x[k] = f(x[k], y[k]);
        return x;
    }
    template <class F> static vec indexed(vec x, int64_t i, F f) {
        for (int k = 0; k < WIDTH; ++k) x[k] = f(x[k], i + k);
        return x;
    }
};

// NaN wins, as in NumPy and torch.
template <class V> inline V maximum(V a, V b) { return ((a > b) | (a != a)) ? a : b; }
template <class V> inline V minimum(V a, V b) { return ((a < b) | (a != a)) ? a : b; }

template <class W> struct Fold {
    static W sum(W a, W b) { return a + b; }
    static W max(W a, W b) { return maximum<W>(a, b); }
    static W min(W a, W b) { return minimum<W>(a, b); }
};

// Element i of a chunk's accumulator, folded in element order: the same whoever ran the chunk.
template <class F> inline double collapse(wide x, double begin, F fold) {
    for (int k = 0; k < WIDTH; ++k) begin = fold(begin, x[k]);
    return begin;
}

inline wide widest(double x) { return x - wide{}; }

// Word 0 of Philox4x32-10: key = seed, counter = (index low, index high, site, 0).
inline uint32_t philox(uint64_t seed, uint32_t site, uint64_t index) {
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    uint32_t c0 = uint32_t(index), c1 = uint32_t(index >> 32), c2 = site, c3 = 0;
    for (int round = 0; round < 10; ++round) {
        const uint64_t left = uint64_t(c0) * 0xD2511F53u, right = uint64_t(c2) * 0xCD9E8D57u;
        c0 = uint32_t(right >> 32) ^ c1 ^ k0;
        c1 = uint32_t(right);
        c2 = uint32_t(left >> 32) ^ c3 ^ k1;
        c3 = uint32_t(left);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c0;
}

}  // namespace paceline
