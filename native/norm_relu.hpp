// Batch norm with the ReLU behind it, its halves split by passes over memory: one pass finds the
// moments of each channel, one makes the result, one adds up what the gradients of scale and shift
// need, one makes the input's gradient. What the ReLU cut off is found again from the input.
#pragma once

#include <cstdint>

namespace paceline {

struct Images {  // samples x channels x values of a channel, as torch lays them out
    std::int64_t samples, channels, values;
    int threads;  // that share the channels
};

struct Affine {  // of each channel: what is cut at zero is x * scale + shift
    const float *scale, *shift;
};

struct Plane {  // of each channel: a gradient is passing * gradient + slope * x + offset
    const float *passing, *slope, *offset;
};

// Of each channel the mean and the variance over all its values.
void channel_moments(const float* x, Images, float* mean, float* variance);

void norm_relu(const float* x, Images, Affine, float* made);

// Of each channel the sum of the gradients that pass the ReLU, and that of their products with
// x - mean.
void passing_sums(const float* x, const float* gradient, Images, Affine, const float* mean,
                  float* sum, float* product);

// The gradient of x.
void norm_relu_back(const float* x, const float* gradient, Images, Affine, Plane, float* made);

}  // namespace paceline
