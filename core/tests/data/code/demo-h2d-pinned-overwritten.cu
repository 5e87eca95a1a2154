// pinned source, overwritten in flight
// written for tutorial-ci
// Kernels stand for theirs: they take the time, not the bytes. No error is looked at.
#include <chrono>
#include <cstring>
#include <cuda_runtime.h>

static __device__ void spin(long long ns) {
    long long now, begin;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begin < ns);
}
__global__ void the_step_before(long long ns) { spin(ns); }

static void busy(long long ns) {
    auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
    while (std::chrono::steady_clock::now() < end) {}
}

int main() {
    char *source, *check, *result;
    cudaMallocHost(&source, 4194304);  // pinned source 4MiB = f32 fill 1
    cudaMallocHost(&check, 4194304);  // pinned check 4MiB = f32 fill 0
    cudaMalloc(&result, 4194304);
    the_step_before<<<1, 1, 0, 0>>>(1000000);  // kernel "the step before" on 0 for 1ms
    busy(0);  // work framework_to
    cudaMemcpyAsync(result, source, 4194304, cudaMemcpyHostToDevice, 0);
    memset(source, 0, 4194304);  // write source = f32 fill 0
    cudaMemcpyAsync(check, result, 4194304, cudaMemcpyDeviceToHost, 0);
    cudaStreamSynchronize(0);
    (void)*(volatile char *)(check);  // read check expect f32 fill 1
}
