"""GPU back end: fused groups as generated Triton kernels over torch symmetric memory."""
