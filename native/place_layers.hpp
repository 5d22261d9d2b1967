// A chain of layers on a pipeline of stages: which layers form a stage, on how many devices each.
//
// Stages are laid from the last one backwards: best[i][k][s] is the least maximum load of layers
// i.. on k devices in exactly s stages. A stage that has s stages from itself to the end keeps
// s - 1 micro-batches stashed.
#pragma once

#include <cstdint>
#include <vector>

namespace paceline::place {

// Rows are widths (devices a stage splits every tensor over), columns are layers.
struct Layers {
    int count = 0;
    std::vector<int32_t> widths;
    std::vector<double> forward_s, backward_s;          // times of one micro-batch
    std::vector<double> state_bytes;                    // parameters, gradients, optimizer
    std::vector<double> parameter_bytes;                // what data parallelism must average
    std::vector<double> activation_bytes;               // kept for the backward part
    std::vector<double> input_bytes;                    // one row: what enters each layer
    double bytes_per_s = 0;                             // of the link between stages
    double memory_bytes = 0;                            // of one device
    int devices = 0, micro_batches = 0;
    bool recompute = false;                             // may a stage recompute its forward part?
    double beat_s = 0;                                  // only plans faster than this are of use
};

struct LayerStage {
    int first = 0, last = 0;                            // layers [first, last)
    int width = 0;
    bool recomputes = false;
    double load_s = 0, memory_bytes = 0;
};

struct LayerPlan {
    bool feasible = false;
    double seconds = 0;                                 // of one whole batch
    double load_s = 0;
    int replicas = 0;                                   // data-parallel copies of the pipeline
    std::vector<LayerStage> stages;
};

LayerPlan plan_layers(const Layers& layers);

}  // namespace paceline::place
