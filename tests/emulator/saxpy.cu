// saxpy.cu - an ordinary CUDA program without code for emulated GPUs: y = a * x + y on two streams, a template
// kernel, a __constant__ and a __device__ variable. Exit status 0: correct; 1: a CUDA error; 2: wrong data.
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>

__constant__ float scale;
__device__ int blocks_seen;

extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        y[i] = a * x[i] + y[i];
    if (threadIdx.x == 0)
        atomicAdd(&blocks_seen, 1);
}

template <typename T> __global__ void scale_all(T *x, size_t n)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        x[i] *= scale;
}

static int failed(cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess)
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(rc));
    return rc != cudaSuccess;
}

int main()
{
    const int n = 10000;
    std::vector<float> x(n), y(n, 1.0f);
    float *dx, *dy, three = 3.0f;
    int seen = 0;
    cudaStream_t s;

    for (int i = 0; i < n; i++)
        x[i] = (float)i;
    if (failed(cudaMalloc(&dx, n * sizeof(float)), "malloc") || failed(cudaMalloc(&dy, n * sizeof(float)), "malloc") ||
        failed(cudaStreamCreate(&s), "stream") || failed(cudaMemcpyToSymbol(scale, &three, sizeof(three)), "symbol"))
        return 1;
    cudaMemcpyAsync(dx, x.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
    cudaMemcpyAsync(dy, y.data(), n * sizeof(float), cudaMemcpyHostToDevice, s);
    saxpy<<<(n + 255) / 256, 256, 0, s>>>(n, 2.0f, dx, dy);
    if (failed(cudaGetLastError(), "saxpy"))
        return 1;
    scale_all<<<32, 128, 0, s>>>(dy, (size_t)n);
    if (failed(cudaGetLastError(), "scale_all"))
        return 1;
    cudaMemcpyAsync(y.data(), dy, n * sizeof(float), cudaMemcpyDeviceToHost, s);
    if (failed(cudaStreamSynchronize(s), "run") ||
        failed(cudaMemcpyFromSymbol(&seen, blocks_seen, sizeof(seen)), "symbol"))
        return 1;
    for (int i = 0; i < n; i++)
        if (y[i] != 3.0f * (2.0f * (float)i + 1.0f)) {
            fprintf(stderr, "y[%d] = %g\n", i, y[i]);
            return 2;
        }
    return failed(cudaFree(dx), "free") || failed(cudaFree(dy), "free");
}
