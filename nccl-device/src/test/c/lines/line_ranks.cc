// Runs the kernels with lines (direct_ll.cuh, direct_group.cuh) for all ranks: a thread for each block, and for each
// rank's stream, which runs one kernel after the other. Each rank divides groups among kernels in its own way. Compares
// all results, and the bytes around them.
//   line_ranks RANKS ROUNDS SEED
// Prints how many operations ran by how many kernels, or the first error.
#include <algorithm>
#include <atomic>
#include <random>
#include <vector>

#define __device__
#define __forceinline__ inline
using std::min;
struct Index {
  unsigned x = 0;
};
static thread_local Index threadIdx, blockIdx, blockDim, gridDim;
static void __syncthreads() {}  // blocks have one thread
static void __nanosleep(unsigned) {}
#include "direct_calls.h"
#include "direct_group.cuh"

constexpr u64 kLineBytes = 16 << 10;
constexpr u64 kEpoch = 0, kLines = 4096;

// Bytes of an operation's lines.
static u64 linesOf(const Operation& o) { return ((o.bytes + 7) / 8 * 16 + 127) / 128 * 128; }

using Group = std::vector<Operation>;

static std::vector<Buffer> resources;  // one after the other, as a window's views
static uint8_t* window;
static u64 stride;
static std::atomic<long> kernels, operations;

static nccl4jDirectArguments common(int rank) {
  nccl4jDirectArguments a;
  memset(&a, 0, sizeof a);
  a.comm.rank = rank;
  a.comm.nRanks = n;
  a.resources = (uint64_t)window;
  a.stride = stride;
  a.epoch = kEpoch;
  a.lines = kLines;
  a.lineBytes = kLineBytes;
  return a;
}

template <class F>
static void launch(u32 blocks, F kernel) {
  kernels++;
  std::vector<std::thread> threads;
  for (u32 b = 0; b < blocks; b++)
    threads.emplace_back([=] {
      blockIdx.x = b;
      gridDim.x = blocks;
      blockDim.x = 1;
      kernel();
    });
  for (std::thread& t : threads) t.join();
}

static void alone(int rank, const Operation& o, const void* send, void* recv, u32 blocks) {
  nccl4jDirectArguments a = common(rank);
  a.send = (uint64_t)send;
  a.recv = (uint64_t)recv;
  a.bytes = o.bytes;
  a.operation = o.operation;
  a.op = o.op;
  a.root = o.root;
  a.comm.signature = o.signature;
  launch(blocks, [&a, &o] {
    if (o.combines())
      direct::ll<long long, direct::Received::COMBINED>(a);
    else
      direct::ll<uint8_t, direct::Received::STORED>(a);
  });
}

static void together(int rank, u64 first, const Group& group, std::mt19937_64& random) {
  std::vector<Call> calls;
  for (size_t w = 0; w < group.size(); w++) calls.emplace_back(rank, first + w, group[w], random);
  std::vector<u64> lines(group.size() + 1);
  for (size_t w = 0; w < group.size(); w++) lines[w + 1] = lines[w] + linesOf(group[w]);
  for (size_t from = 0; from < group.size();) {
    const size_t to = random() % 2 ? group.size() : from + 1 + random() % (group.size() - from);
    nccl4jDirectGroupArguments g;
    memset(&g, 0, sizeof g);
    g.direct = common(rank);
    g.ends = to == group.size();
    for (size_t w = from; w < to; w++) {
      nccl4jDirectWork& work = g.works[w - from];
      work = {(uint64_t)calls[w].from, (uint64_t)calls[w].to, group[w].bytes, lines[w], (uint16_t)group[w].operation, (uint16_t)group[w].root,
              group[w].op, group[w].signature, (uint16_t)g.nParts, (uint16_t)(1 + random() % 3)};
      for (u32 part = 0; part < work.nParts; part++) g.workOf[g.nParts + part] = (uint8_t)(w - from);
      g.nParts += work.nParts;
    }
    const bool combines = group[0].combines();
    launch(1 + random() % g.nParts, [&g, combines] {
      if (combines)
        direct::llGroup<long long, direct::Received::COMBINED>(g);
      else
        direct::llGroup<uint8_t, direct::Received::STORED>(g);
    });
    from = to;
  }
  for (size_t w = 0; w < group.size(); w++) {
    check(rank, first + w, group[w], calls[w].to);
    calls[w].checkAround(rank, first + w);
  }
}

static void run(int rank, const std::vector<Group>& groups, uint64_t seed) {
  std::mt19937_64 random(seed);
  u64 call = 0;
  for (const Group& group : groups) {
    if (group.size() > 1) {
      together(rank, call, group, random);
    } else {
      Call one(rank, call, group[0], random);
      alone(rank, group[0], one.from, one.to, 1 + random() % 4);
      check(rank, call, group[0], one.to);
      one.checkAround(rank, call);
    }
    call += group.size();
    operations += group.size();
  }
}

int main(int, char** arguments) {
  n = atoi(arguments[1]);
  const int rounds = atoi(arguments[2]);
  std::mt19937_64 random(strtoull(arguments[3], nullptr, 10));
  std::vector<Group> groups;
  for (int round = 0; round < rounds; round++) {
    const bool combines = random() % 2;
    const size_t wanted = random() % 3 ? 2 + random() % 39 : 1;
    Group group;
    u64 taken = 0;
    while (group.size() < wanted) {
      const Operation o = draw(combines, wanted == 1 ? kLineBytes / 2 - 8 : random() % 4 ? 40 : 2000, random);
      if (taken + linesOf(o) > kLineBytes) break;
      taken += linesOf(o);
      group.push_back(o);
    }
    groups.push_back(group);
  }
  stride = kLines + 2 * n * kLineBytes;
  Buffer all(n * stride + 64);
  window = all.data() + 64 - (uint64_t)all.data() % 64;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < n; rank++) ranks.emplace_back(run, rank, std::cref(groups), random());
  for (std::thread& t : ranks) t.join();
  printf("%ld operations by %ld kernels\n", operations.load(), kernels.load());
  return 0;
}
