// Marks functions that the CUDA kernels will share with the CPU ones.
#pragma once

#ifdef __CUDACC__
#define HEADWISE_HOST_DEVICE __host__ __device__
#else
#define HEADWISE_HOST_DEVICE
#endif
