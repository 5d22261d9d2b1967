// How this module and its caller speak: the caller puts flat arrays into the module's memory and
// hands over addresses of 32 bits; tables of addresses are structs of such words, in this order.
// The callers are web/src/engine (the page) and paceline/wasm (Python). No number of 64 bits is an
// argument or a result, so none crosses as a BigInt.
#pragma once

#include <cstddef>
#include <span>

#define EXPORTED(name) extern "C" __attribute__((export_name(#name), used))

namespace paceline {

template <class T>
std::span<const T> column(const T* at, std::size_t size) {
    return {at, size};
}

}  // namespace paceline
