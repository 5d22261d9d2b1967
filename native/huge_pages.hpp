// `Flat`: a vector for columns of a graph. Long ones lie in huge pages, where the system has them:
// of 2 GB that are touched for the first time, small pages take 1.2 s of a core and huge ones 0.2 s.
// Values that are not given stay uninitialised: `Flat<Op>(n)` is for who writes all of them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace paceline {

template <class T>
struct HugePages {
    using value_type = T;
    static constexpr std::size_t kPage = std::size_t{1} << 21;

    HugePages() = default;
    template <class U>
    HugePages(const HugePages<U>&) {}

    T* allocate(std::size_t count) {
#ifdef __linux__
        const std::size_t bytes = count * sizeof(T);
        if (bytes >= 2 * kPage) {
            void* at = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
            if (at == nullptr) throw std::bad_alloc();
            madvise(at, bytes, MADV_HUGEPAGE);  // advice: small pages serve where it is not taken
            return static_cast<T*>(at);
        }
#endif
        return static_cast<T*>(::operator new(count * sizeof(T)));
    }

    void deallocate(T* at, [[maybe_unused]] std::size_t count) {
#ifdef __linux__
        if (count * sizeof(T) >= 2 * kPage) return std::free(at);
#endif
        ::operator delete(at);
    }

    template <class U>
    void construct(U* at) {
        ::new (static_cast<void*>(at)) U;
    }
    template <class U, class... Given>
    void construct(U* at, Given&&... given) {
        ::new (static_cast<void*>(at)) U(std::forward<Given>(given)...);
    }

    friend bool operator==(const HugePages&, const HugePages&) { return true; }
};

template <class T>
using Flat = std::vector<T, HugePages<T>>;

}  // namespace paceline
