// Times from one kernel to the next in a stream, by how the kernels are launched, on the first GPU of compute
// capability 9.0 or higher:
//   nvcc -std=c++17 -O3 -arch=sm_90 -o launch-gaps launch-gaps.cu && ./launch-gaps [CYCLES]
// A kernel does nothing but wait for 16,000 cycles. What a kernel takes beyond that is the gap; with 0 cycles a
// single launch takes what the driver takes. Printed are
// microseconds a kernel, single launches and graphs of 20 kernels: medians of 12 rounds of 200 kernels.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

static unsigned long long cycles = 16000;
constexpr int kRounds = 12, kKernels = 200, kOfGraph = 20;

// When the next kernel's blocks may start.
enum Admits { AT_ONCE, BEFORE_END, AT_END };

struct Arguments {
  unsigned long long admitsAt, endsAt;  // cycles
  char more[400];               // as many bytes as a direct kernel has
};

__global__ void waits(const __grid_constant__ Arguments a) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const unsigned long long begin = clock64();
  while (clock64() - begin < a.admitsAt) {}
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  while (clock64() - begin < a.endsAt) {}
}

static void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  printf("%s\n", cudaGetErrorString(error));
  exit(1);
}

static void launch(cudaStream_t stream, int blocks, int threads, bool early, Admits admits) {
  Arguments a = {admits == AT_ONCE ? 0 : admits == BEFORE_END && cycles > 2000 ? cycles - 2000 : cycles, cycles, {}};
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  check(cudaLaunchKernelEx(&config, waits, a));
}

template <class Run>
static double median(cudaStream_t stream, Run run) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; round++) {
    const auto begin = std::chrono::steady_clock::now();
    run();
    check(cudaStreamSynchronize(stream));
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count() / kKernels);
  }
  std::sort(times.begin(), times.end());
  return times[kRounds / 2];
}

int main(int n, char** arguments) {
  if (n > 1) cycles = strtoull(arguments[1], nullptr, 10);
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const char* names[] = {"at its begin", "2,000 cycles before its end", "at its end"};
  for (int blocks : {16, 64})
    for (int how = -1; how < 3; how++) {
      const bool early = how >= 0;
      const Admits admits = early ? (Admits)how : AT_END;
      const double single = median(stream, [&] {
        for (int i = 0; i < kKernels; i++) launch(stream, blocks, 512, early, admits);
      });
      cudaGraph_t graph;
      cudaGraphExec_t ready;
      check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (int i = 0; i < kOfGraph; i++) launch(stream, blocks, 512, early, admits);
      check(cudaStreamEndCapture(stream, &graph));
      check(cudaGraphInstantiate(&ready, graph, 0));
      const double inGraph = median(stream, [&] {
        for (int i = 0; i < kKernels / kOfGraph; i++) check(cudaGraphLaunch(ready, stream));
      });
      check(cudaGraphExecDestroy(ready));
      check(cudaGraphDestroy(graph));
      printf("%2d blocks, the next %-38s %6.2f, in graphs %6.2f\n", blocks,
             early ? names[how] : "only after the end", single, inGraph);
    }
}
