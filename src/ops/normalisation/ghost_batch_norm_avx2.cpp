#include "ops/normalisation/ghost_batch_norm_kernel.inl"

COVNOISE_GHOST_NORM_KERNELS(kAvx2Kernels)
