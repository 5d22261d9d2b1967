// Columns on their way between NumPy and C++.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <span>
#include <utility>
#include <vector>

template <class T>
using Column = nanobind::ndarray<const T, nanobind::ndim<1>, nanobind::c_contig,
                                 nanobind::device::cpu>;

template <class T>
std::span<const T> view(const Column<T>& column) {
    return {column.data(), column.size()};
}

template <class T>
std::vector<T> copied(const Column<T>& column) {
    return {column.data(), column.data() + column.size()};
}

// Hands a vector to NumPy without copying it.
template <class T, class Memory>
nanobind::object given(std::vector<T, Memory> values) {
    using Values = std::vector<T, Memory>;
    auto* kept = new Values(std::move(values));
    nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<Values*>(p); });
    return nanobind::cast(nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>(
        kept->data(), {kept->size()}, owner));
}
