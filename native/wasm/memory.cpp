// What the C++ library would bring and a module without one must have itself: memory, an end, and
// the sorts that its headers leave out. A failed allocation traps; whoever called the module sees
// the trap as an error.
#include <algorithm>
#include <cstdlib>
#include <new>

void* operator new(std::size_t size) {
    if (void* found = std::malloc(size ? size : 1)) return found;
    __builtin_trap();
}

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return std::malloc(size ? size : 1);
}

void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }

_LIBCPP_BEGIN_NAMESPACE_STD
[[noreturn]] void __libcpp_verbose_abort(const char*, ...) noexcept { __builtin_trap(); }

template <class Less, class At>
void __sort(At first, At last, Less) {
    sort(first, last, [](const auto& a, const auto& b) { return a < b; });
}
template void __sort<__less<int>&, int*>(int*, int*, __less<int>&);
template void __sort<__less<long long>&, long long*>(long long*, long long*, __less<long long>&);
_LIBCPP_END_NAMESPACE_STD
