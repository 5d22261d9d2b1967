// Binds native/norm_relu: flat float32 arrays in, what is made into arrays that are given.
#include "norm_relu.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

namespace nb = nanobind;
using namespace paceline;

namespace {

using Given = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Made = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class... Arrays>
void require(const char* what, std::size_t size, const Arrays&... arrays) {
    if (((arrays.size() != size) || ...)) throw std::invalid_argument(what);
}

template <class... Arrays>
void require_values(const Images& images, const Arrays&... arrays) {
    require("an array does not hold samples x channels x values",
            images.samples * images.channels * images.values, arrays...);
}

template <class... Arrays>
void require_channels(const Images& images, const Arrays&... arrays) {
    require("an array does not hold a number for each channel", images.channels, arrays...);
}

void moments(const Images& images, Given x, Made mean, Made variance) {
    require_values(images, x);
    require_channels(images, mean, variance);
    nb::gil_scoped_release unlocked;
    channel_moments(x.data(), images, mean.data(), variance.data());
}

void forward(const Images& images, Given x, Given scale, Given shift, Made made) {
    require_values(images, x, made);
    require_channels(images, scale, shift);
    nb::gil_scoped_release unlocked;
    norm_relu(x.data(), images, {scale.data(), shift.data()}, made.data());
}

void sums(const Images& images, Given x, Given gradient, Given scale, Given shift, Given mean,
          Made sum, Made product) {
    require_values(images, x, gradient);
    require_channels(images, scale, shift, mean, sum, product);
    nb::gil_scoped_release unlocked;
    passing_sums(x.data(), gradient.data(), images, {scale.data(), shift.data()}, mean.data(),
                 sum.data(), product.data());
}

void backward(const Images& images, Given x, Given gradient, Given scale, Given shift,
              Given passing, Given slope, Given offset, Made made) {
    require_values(images, x, gradient, made);
    require_channels(images, scale, shift, passing, slope, offset);
    nb::gil_scoped_release unlocked;
    norm_relu_back(x.data(), gradient.data(), images, {scale.data(), shift.data()},
                   {passing.data(), slope.data(), offset.data()}, made.data());
}

}  // namespace

void bind_norm_relu(nb::module_& m) {
    nb::class_<Images>(m, "Images")
        .def(nb::init<std::int64_t, std::int64_t, std::int64_t, int>(), nb::arg("samples"),
             nb::arg("channels"), nb::arg("values"), nb::arg("threads"));
    m.def("channel_moments", &moments, nb::arg("images"), nb::arg("x"), nb::arg("mean"),
          nb::arg("variance"));
    m.def("norm_relu", &forward, nb::arg("images"), nb::arg("x"), nb::arg("scale"),
          nb::arg("shift"), nb::arg("made"));
    m.def("passing_sums", &sums, nb::arg("images"), nb::arg("x"), nb::arg("gradient"),
          nb::arg("scale"), nb::arg("shift"), nb::arg("mean"), nb::arg("sum"),
          nb::arg("product"));
    m.def("norm_relu_back", &backward, nb::arg("images"), nb::arg("x"), nb::arg("gradient"),
          nb::arg("scale"), nb::arg("shift"), nb::arg("passing"), nb::arg("slope"),
          nb::arg("offset"), nb::arg("made"));
}
