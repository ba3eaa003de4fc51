// Comes before the kernels' headers, where a program includes CUDA's own for its vector types: these define the words for
// code of the device otherwise.
#pragma once
#include <vector_types.h>

#include <algorithm>

#include "memory.cuh"

#undef __device__
#undef __forceinline__
#undef __noinline__
#define __device__
#define __forceinline__ inline
#define __noinline__
using std::max;
using std::min;
