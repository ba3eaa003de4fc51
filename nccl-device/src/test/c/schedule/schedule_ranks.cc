// Runs the schedules of ring.cuh, tree.cuh and hierarchical.cuh for all ranks, step by step in a random order, as the kernels' primitives
// would, with the arguments and the tables of ranks that the Java side has made. Compares the results.
//   schedule_ranks FILE SEED
// FILE: of each rank, in order, nccl4jCollectiveArguments and the table of the rings.
// Prints the number of steps, or the first error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __noinline__
static unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
static struct {
  unsigned x;
} threadIdx;
unsigned atomicAdd(unsigned*, unsigned);
unsigned __shfl_sync(unsigned, unsigned, int);
void storeControl(void*, unsigned);
#include "algorithms.h"
#include "hierarchical.cuh"
#include "ring.cuh"
#include "tree.cuh"

using namespace nccl4j;

constexpr u32 kUnit = 8;  // bytes of an element

struct Recorder {
  static constexpr bool kClaims = false;
  static constexpr int kSlices = 1;
  std::vector<Step> steps;
  void run(const Step& step) { steps.push_back(step); }
};

static int n;
static std::vector<nccl4jCollectiveArguments> args;
static std::vector<std::vector<uint16_t>> tables;  // of the rings
static std::vector<std::vector<uint64_t>> sends, recvs;

[[noreturn]] static void fail(const char* what, int rank) {
  printf("%s, rank %d\n", what, rank);
  exit(1);
}

// The rank of an entry of the fan, as collective.cuh sets it.
static int peerOf(const nccl4jCollectiveArguments& a, int channel, int entry) {
  const bool grid = a.algorithm == HIERARCHICAL;
  const int peer = a.algorithm == RING || (grid && entry < 2) ? (entry == 0 ? a.ringPrev[channel] : a.ringNext[channel])
                   : grid       ? (entry == 2 ? a.treeUp[channel] : a.treeDown[0][channel])
                   : entry == 0 ? a.treeUp[channel]
                                : a.treeDown[entry - 1][channel];
  if (peer == NCCL4J_NONE) return -1;
  if (peer >= n || peer == a.comm.rank) fail("no such peer", a.comm.rank);
  return peer;
}

static uint64_t value(int rank, u64 at) { return (rank + 1) * 0x9e3779b97f4a7c15ull ^ at * 0xbf58476d1ce4e5b9ull; }

struct Block {
  int rank, channel;
  Recorder recorder;
  size_t next = 0;
};

static std::map<std::tuple<int, int, int>, std::deque<std::vector<uint64_t>>> wires;  // from, to, channel

static bool run(Block& b) {
  const nccl4jCollectiveArguments& a = args[b.rank];
  const Step& step = b.recorder.steps[b.next];
  const bool grid = a.algorithm == HIERARCHICAL;
  const int entries = a.algorithm == RING ? 2 : grid ? 4 : 1 + NCCL4J_TREE_CHILDREN;
  if (grid && (step.recvMask & 0xa || step.sendMask & 0x5)) fail("an entry of the other direction", b.rank);
  auto wire = [&](int entry, bool sends) -> std::deque<std::vector<uint64_t>>& {
    const int peer = peerOf(a, b.channel, entry);
    if (peer < 0) fail("a step with a rank that is not there", b.rank);
    return sends ? wires[{b.rank, peer, b.channel}] : wires[{peer, b.rank, b.channel}];
  };
  for (int entry = 0; entry < entries; entry++) {
    if (step.recvMask >> entry & 1 && wire(entry, false).empty()) return false;
    // The heads of some steps of the kernel before may not be told yet.
    const size_t room = NCCL4J_SLOTS - NCCL4J_UNTOLD_STEPS;
    if (step.sendMask >> entry & 1 && wire(entry, true).size() >= room) return false;
  }
  std::vector<uint64_t> sum(step.bytes / kUnit);
  if (step.bytes == 0 || step.bytes % kUnit) fail("parts of elements", b.rank);
  bool any = step.src != nullptr;
  if (any) memcpy(sum.data(), step.src, step.bytes);
  for (int entry = 0; entry < entries; entry++) {
    if (!(step.recvMask >> entry & 1)) continue;
    std::vector<uint64_t> come = wire(entry, false).front();
    wire(entry, false).pop_front();
    if (come.size() != sum.size()) fail("a slot of another size", b.rank);
    for (size_t i = 0; i < sum.size(); i++) sum[i] = any ? sum[i] + come[i] : come[i];
    any = true;
  }
  if (step.dst) memcpy(step.dst, sum.data(), step.bytes);
  for (int entry = 0; entry < entries; entry++)
    if (step.sendMask >> entry & 1) wire(entry, true).push_back(sum);
  b.next++;
  return true;
}

// What a rank must have received.
static uint64_t expected(const nccl4jCollectiveArguments& a, u64 at) {
  const u64 part = a.bytes / kUnit;
  if (a.collective == ALL_GATHER) return value((int)(at / part), at % part);
  uint64_t sum = 0;
  const u64 from = a.collective == REDUCE_SCATTER ? a.comm.rank * part + at : at;
  for (int rank = 0; rank < n; rank++) sum += value(rank, from);
  return a.collective == BROADCAST ? value((int)a.root, at) : sum;
}

int main(int, char** arguments) {
  FILE* file = fopen(arguments[1], "rb");
  nccl4jCollectiveArguments a;
  while (fread(&a, sizeof a, 1, file) == 1) {
    n = a.comm.nRanks;
    args.push_back(a);
    tables.emplace_back(NCCL4J_CHANNELS * n);
    if (fread(tables.back().data(), sizeof(uint16_t), tables.back().size(), file) != tables.back().size())
      fail("no table", a.comm.rank);
  }
  if ((int)args.size() != n) fail("not all ranks", (int)args.size());
  std::mt19937_64 random(strtoull(arguments[2], nullptr, 10));
  sends.resize(n);
  recvs.resize(n);
  std::vector<Block> blocks;
  for (int rank = 0; rank < n; rank++) {
    nccl4jCollectiveArguments& mine = args[rank];
    const u64 part = mine.bytes / kUnit;
    if (mine.comm.rank != rank) fail("arguments of another rank", rank);
    sends[rank].resize(mine.collective == REDUCE_SCATTER ? n * part : part);
    for (u64 at = 0; at < sends[rank].size(); at++) sends[rank][at] = value(rank, at);
    recvs[rank].assign(mine.collective == ALL_GATHER ? n * part : part, 0);
    mine.send = (uint64_t)sends[rank].data();
    mine.recv = (uint64_t)recvs[rank].data();
    mine.ringRanks = (uint64_t)tables[rank].data();
    mine.claims = 0;
    for (int channel = 0; channel < (int)mine.nChannels; channel++) {
      Block block{rank, channel, {}};
      if (mine.algorithm == RING)
        ring(block.recorder, mine, channel);
      else if (mine.algorithm == HIERARCHICAL)
        hierarchical(block.recorder, mine, channel);
      else
        tree(block.recorder, mine, channel);
      blocks.push_back(block);
    }
  }
  u64 steps = 0;
  for (bool moved = true; moved;) {
    moved = false;
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (Block& b : blocks)
      for (u64 most = 1 + random() % 40; most > 0 && b.next < b.recorder.steps.size() && run(b); most--, steps++)
        moved = true;
  }
  for (const Block& b : blocks)
    if (b.next < b.recorder.steps.size()) fail("waits for ever", b.rank);
  for (int rank = 0; rank < n; rank++)
    for (u64 at = 0; at < recvs[rank].size(); at++)
      if ((args[rank].collective != REDUCE || rank == (int)args[rank].root) &&
          recvs[rank][at] != expected(args[rank], at))
        fail("a wrong result", rank);
  for (const auto& wire : wires)
    if (!wire.second.empty()) fail("messages are left", std::get<1>(wire.first));
  printf("%llu steps\n", (unsigned long long)steps);
  return 0;
}
