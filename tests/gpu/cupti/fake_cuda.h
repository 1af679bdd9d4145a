/* A libcuda.so.1 whose GPU does nothing: each execution takes the time that the program names. Loads the library that
 * CUDA_INJECTION64_PATH names, as NVIDIA's driver does. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A kernel of this name, whose executions take `ns`; never freed. A "graph" is a list of kernels. */
void *fake_kernel(const char *name, uint64_t ns);
void *fake_graph(void **kernels, size_t count);

/* NVIDIA's functions, without the parameters that the fake does not read. */
int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuLaunchKernel(void *kernel);
int cuGraphLaunch(void *graph);
int cuMemcpyHtoD_v2(uint64_t ns);
int cuMemcpyDtoH_v2(uint64_t ns);
int cuMemsetD8_v2(uint64_t ns);
int cuMemAlloc_v2(void);
int cuStreamSynchronize(uint64_t ns);      /* waits for so long */
int cuStreamSynchronize_ptsz(uint64_t ns); /* likewise */
int cudaLaunchKernel(void *kernel);        /* of the runtime: calls cuLaunchKernel */

/* As the last launch, with other times and another number of the call. For broken records. */
void fake_execution(void *kernel, uint32_t correlation, uint64_t start, uint64_t end);
uint32_t fake_correlation(void); /* of the last call */
