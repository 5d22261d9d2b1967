// Binds native/coding: numbers in, bytes out.
#include "coding.hpp"

#include "columns.hpp"

namespace nb = nanobind;

void bind_coding(nb::module_& m) {
    m.def(
        "varints",
        [](Column<std::int64_t> values) {
            std::vector<std::uint8_t> found;
            {
                nb::gil_scoped_release unlocked;
                found = paceline::varints(view(values));
            }
            return nb::bytes(reinterpret_cast<const char*>(found.data()), found.size());
        },
        nb::arg("values"));
}
