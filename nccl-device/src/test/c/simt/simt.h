// Runs blocks of threads on the host: each thread is a fiber, and warps take turns in a random order. So warps of all
// blocks of all ranks interleave as a seed says. A thread gives way where it waits: at a barrier, in an exchange among
// its warp's lanes, which all of them make, and in a pause.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

struct Dim {
  unsigned x;
};

namespace simt {

[[noreturn]] inline void fail(const char* what, int rank) {
  printf("%s, rank %d\n", what, rank);
  exit(1);
}

// Ends a wait of all of a group once each has come.
struct Barrier {
  unsigned size = 0, come = 0, generation = 0;
};

struct Warp {
  Barrier barrier{32};
  uint64_t values[2][32] = {};  // of an exchange and the one before, which slow lanes may still read
};

struct Block;

struct Thread {
  Block* block;
  Dim index;
  Warp* warp;
  unsigned exchanges = 0;
  std::unique_ptr<char[]> stack;
  ucontext_t start;
  jmp_buf place;
  bool begun = false, ended = false;
  const Barrier* waits = nullptr;
  unsigned generation = 0;  // of the barrier that it waits at
};

struct Block {
  Dim index, threads, blocks;
  Barrier barrier;
  Barrier named[16];  // of some of the warps
  int truths[2][2] = {};  // of a vote and the next: the threads, and those that said yes
  unsigned votes = 0;
  std::vector<Warp> warps;
  std::vector<Thread> lanes;
  std::function<void()> kernel;
  unsigned ended = 0;
};

inline constexpr size_t kStack = 64 << 10;
inline jmp_buf scheduler;
inline ucontext_t schedulerContext;
inline Thread* current = nullptr;
inline std::mt19937_64 random;

inline void giveWay() {
  if (_setjmp(current->place) == 0) _longjmp(scheduler, 1);
}

inline void come(Barrier& barrier) {
  if (++barrier.come < barrier.size) return;
  barrier.come = 0;
  barrier.generation++;
}

inline void wait(Barrier& barrier) {
  current->waits = &barrier;
  current->generation = barrier.generation;
  come(barrier);
  giveWay();
  current->waits = nullptr;
}

// The values of all lanes of the warp.
inline const uint64_t* exchange(uint64_t mine) {
  Warp& warp = *current->warp;
  uint64_t* values = warp.values[current->exchanges++ % 2];
  values[current->index.x % 32] = mine;
  wait(warp.barrier);
  return values;
}

inline void begin() {
  current->block->kernel();
  current->ended = true;
  current->block->ended++;
  _longjmp(scheduler, 1);
}

inline bool canRun(const Thread& thread) {
  return !thread.ended && !(thread.waits && thread.waits->generation == thread.generation);
}

// Lets a thread run until it gives way.
inline void run(Thread& thread) {
  current = &thread;
  if (_setjmp(scheduler) == 0) {
    if (thread.begun) _longjmp(thread.place, 1);
    thread.begun = true;
    thread.stack.reset(new char[kStack]);
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = kStack;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, begin, 0);
    swapcontext(&schedulerContext, &thread.start);
  }
}

inline std::unique_ptr<Block> start(unsigned index, unsigned blocks, unsigned threads, std::function<void()> kernel) {
  std::unique_ptr<Block> block(new Block);
  block->index = {index};
  block->blocks = {blocks};
  block->threads = {threads};
  block->barrier.size = threads;
  block->warps.resize(threads / 32);
  block->lanes.resize(threads);
  block->kernel = kernel;
  for (unsigned i = 0; i < threads; i++) {
    block->lanes[i].block = block.get();
    block->lanes[i].index = {i};
    block->lanes[i].warp = &block->warps[i / 32];
  }
  return block;
}

// Lets the threads of a warp that can run do so until each gives way. Those of which a wait has ended go on together.
inline void runWarp(Block& block, unsigned warp) {
  Thread* lanes = &block.lanes[warp * 32];
  bool runs[32];
  for (unsigned lane = 0; lane < 32; lane++) runs[lane] = canRun(lanes[lane]);
  for (unsigned lane = 0; lane < 32; lane++)
    if (runs[lane]) run(lanes[lane]);
}

// Runs all ranks' kernels, each rank as far ahead of the others as they let it. A rank has the blocks of its kernel, their
// threads, the number of kernels that it has done, and its control words. before() is called before a warp's turn,
// after(rank) when a kernel has ended: it launches the next unless all are done.
template <class Rank, class Before, class After>
inline void runRanks(std::vector<Rank>& ranks, unsigned kernels, Before before, After after) {
  uint64_t turns = 0;
  for (size_t running = ranks.size(); running > 0; turns++) {
    if (turns > 1ull << 28) fail("waits for ever", -1);
    const int me = (int)(random() % ranks.size());
    Rank& rank = ranks[me];
    if (rank.done == kernels) continue;
    before();
    if (!rank.blocks.empty()) runWarp(*rank.blocks[random() % rank.blocks.size()], random() % (rank.threads / 32));
    if (rank.control.failed) fail("a failure", me);
    bool runs = false;
    for (const auto& block : rank.blocks) runs |= block->ended < block->lanes.size();
    if (runs) continue;
    rank.done++;
    after(me);
    if (rank.done == kernels) running--;
  }
}

// The threads that say yes.
inline int vote(bool yes) {
  Block& block = *current->block;
  const unsigned number = block.votes;
  int(&truths)[2] = block.truths[number % 2];
  truths[0]++;
  truths[1] += yes;
  if (truths[0] == (int)block.threads.x) {
    block.votes++;
    block.truths[block.votes % 2][0] = block.truths[block.votes % 2][1] = 0;
  }
  wait(block.barrier);
  return truths[1];
}

}  // namespace simt

#define threadIdx (simt::current->index)
#define blockIdx (simt::current->block->index)
#define blockDim (simt::current->block->threads)
#define gridDim (simt::current->block->blocks)

// Barriers of some of the warps.
inline void barrierSync(int id, int threads) {
  simt::Barrier& barrier = simt::current->block->named[id];
  barrier.size = threads;
  simt::wait(barrier);
}
inline void barrierArrive(int id, int threads) {
  simt::Barrier& barrier = simt::current->block->named[id];
  barrier.size = threads;
  simt::come(barrier);
}
inline void __syncthreads() { simt::wait(simt::current->block->barrier); }
inline int __syncthreads_or(int yes) { return simt::vote(yes) != 0; }
inline void __syncwarp() { simt::exchange(0); }
inline void __nanosleep(unsigned) { simt::giveWay(); }
inline long long clock64() {
  static long long cycles = 0;
  return cycles++;
}
inline unsigned __shfl_sync(unsigned, unsigned x, unsigned from) { return (unsigned)simt::exchange(x)[from % 32]; }
inline unsigned __shfl_xor_sync(unsigned, unsigned x, unsigned distance) {
  return (unsigned)simt::exchange(x)[threadIdx.x % 32 ^ distance];
}
inline unsigned __shfl_up_sync(unsigned, unsigned x, unsigned distance) {
  const unsigned lane = threadIdx.x % 32;
  return (unsigned)simt::exchange(x)[lane < distance ? lane : lane - distance];
}
inline unsigned __ballot_sync(unsigned, int yes) {
  const uint64_t* values = simt::exchange(yes != 0);
  unsigned bits = 0;
  for (unsigned lane = 0; lane < 32; lane++) bits |= (unsigned)values[lane] << lane;
  return bits;
}
inline int __any_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) != 0; }
inline int __all_sync(unsigned mask, int yes) { return __ballot_sync(mask, yes) == ~0u; }
inline unsigned atomicAdd(unsigned* p, unsigned x) {
  const unsigned before = *p;
  *p += x;
  return before;
}
inline int __ffs(unsigned x) { return __builtin_ffs((int)x); }
