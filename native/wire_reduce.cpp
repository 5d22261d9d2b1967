#include "wire_reduce.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::wire {

void add_up(std::span<const Part> parts, std::size_t packet_values, std::span<float> into) {
    std::vector<const float*> there;
    for (std::size_t from = 0, packet = 0; from < into.size(); from += packet_values, ++packet) {
        const std::size_t count = std::min(packet_values, into.size() - from);
        float* out = into.data() + from;
        there.clear();
        for (const Part& part : parts)
            if (part.flags.empty() || part.flags[packet]) there.push_back(part.values.data() + from);
        if (there.empty()) {
            std::fill_n(out, count, 0.0f);
            continue;
        }
        for (std::size_t i = 0; i < count; ++i) {  // `into` may be one of the parts
            float sum = there[0][i];
            for (std::size_t p = 1; p < there.size(); ++p) sum += there[p][i];
            out[i] = sum;
        }
        if (there.size() == parts.size()) continue;
        const float scale = static_cast<float>(parts.size()) / static_cast<float>(there.size());
        for (std::size_t i = 0; i < count; ++i) out[i] *= scale;
    }
}

std::vector<float> magnitudes(std::span<const float> values, std::size_t packet_values) {
    std::vector<float> means((values.size() + packet_values - 1) / packet_values);
    for (std::size_t packet = 0; packet < means.size(); ++packet) {
        const std::size_t from = packet * packet_values;
        const std::size_t count = std::min(packet_values, values.size() - from);
        float sum = 0;
        for (std::size_t i = 0; i < count; ++i) sum += std::fabs(values[from + i]);
        means[packet] = sum / static_cast<float>(count);
    }
    return means;
}

}  // namespace paceline::wire
