// Runs the schedule of pat.cuh for all ranks, step by step in a random order, as the kernels' primitives would, and
// compares what they receive with what the trees give. Made twice: with FAMILY_COPY for the all-gather.
//   pat_ranks RANKS CHANNELS PART_BYTES SLICE_BYTES IN_PLACE SEED
// Prints the longest chain of messages that wait for each other, or the first error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#define __device__
#define __forceinline__ inline
static int __clz(unsigned x) { return x == 0 ? 32 : __builtin_clz(x); }
static unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
#include "pat.cuh"

using namespace nccl4j;

constexpr int kLanes = 32, kUnit = kCombines ? 8 : 1;

// Records the steps of a schedule as one thread sees them.
struct Recorder {
  int lane;
  std::vector<PieceStep> steps;
  bool reminds = false;
  int entry() const { return lane; }
  void run(const PieceStep& step) { steps.push_back(step); }
  void remind() { reminds = true; }
};

// A connection's channel.
struct Channel {
  std::vector<std::vector<uint8_t>> slots = std::vector<std::vector<uint8_t>>(NCCL4J_SLOTS);
  std::vector<u32> sizes = std::vector<u32>(NCCL4J_SLOTS);
  std::vector<int> depth = std::vector<int>(NCCL4J_SLOTS);  // of the chain of messages before it
  u64 tail = 0, head = 0;
  u64 untold = NCCL4J_UNTOLD_STEPS;  // steps of kernels before, which the sender takes for not received yet
};

static void fail(const char* what, int rank) {
  printf("%s, rank %d\n", what, rank);
  exit(1);
}

// Of no two operands that are exchanged, or grouped otherwise, the same.
static uint64_t combine(uint64_t a, uint64_t b) {
  uint64_t x = a * 6364136223846793005ull + (b ^ 1442695040888963407ull);
  return x ^ x >> 29;
}

static uint64_t value(int rank, uint64_t at) { return combine(rank + 1, at); }

// The sum of a rank's subtree in the tree of a root.
static uint64_t subtree(int n, int root, int places, uint64_t at) {
  uint64_t sum = value((root + places) % n, at);
  for (int d = 1; d < n && places % (2 * d) == 0; d *= 2)
    if (places + d < n) sum = combine(sum, subtree(n, root, places + d, at));
  return sum;
}

struct Block {
  int rank, channel;
  std::vector<Recorder> lanes;
  u64 next = 0;
  u64 sent[kLanes] = {}, received[kLanes] = {};
  Channel* wires[kLanes] = {};  // by entry, once looked up
  int depth = 0;
};

int main(int, char** arguments) {
  const int n = atoi(arguments[1]), channels = atoi(arguments[2]);
  const u64 part = strtoull(arguments[3], nullptr, 10);
  const u32 slice = atoi(arguments[4]);
  const bool inPlace = atoi(arguments[5]);
  std::mt19937_64 random(strtoull(arguments[6], nullptr, 10));
  std::vector<std::vector<uint8_t>> sends(n), recvs(n);
  std::vector<nccl4jCollectiveArguments> args(n);
  std::vector<Block> blocks;
  for (int rank = 0; rank < n; rank++) {
    sends[rank].assign(kCombines ? n * part : part, 0);
    recvs[rank].assign(kCombines ? part : n * part, 0x77);
    std::vector<uint8_t>& own = sends[rank];
    for (u64 at = 0; at < own.size(); at += kUnit) {
      const uint64_t v = value(rank, at);
      memcpy(&own[at], &v, kUnit);
    }
    nccl4jCollectiveArguments& a = args[rank];
    memset(&a, 0, sizeof a);
    a.comm.rank = rank;
    a.comm.nRanks = n;
    a.collective = kCombines ? REDUCE_SCATTER : ALL_GATHER;
    a.bytes = part;
    a.nChannels = channels;
    a.sliceBytes = slice;
    a.send = (uint64_t)own.data();
    a.recv = (uint64_t)recvs[rank].data();
    if (inPlace && kCombines) a.recv = a.send + rank * part;
    if (inPlace && !kCombines) {
      memcpy(&recvs[rank][rank * part], own.data(), part);
      a.send = a.recv + rank * part;
    }
    for (int channel = 0; channel < channels; channel++) {
      Block block{rank, channel, {}};
      for (int lane = 0; lane < kLanes; lane++) {
        Recorder recorder{lane, {}};
        pat(recorder, a, channel);
        if (lane > 0 && recorder.steps.size() != block.lanes[0].steps.size()) fail("threads differ", rank);
        block.lanes.push_back(std::move(recorder));
      }
      blocks.push_back(std::move(block));
    }
  }
  const int levels = PatTrees(n, 0).levels;
  std::map<std::vector<int>, Channel> wires;  // from, to, channel
  auto wire = [&](Block& b, int entry) -> Channel& {
    if (b.wires[entry] != nullptr) return *b.wires[entry];
    const int peer = patPeer(args[b.rank].comm, entry, levels, !kCombines);
    if (peer < 0 || peer >= n || peer == b.rank) fail("no such peer", b.rank);
    Channel& w = entry < levels ? wires[{peer, b.rank, b.channel}] : wires[{b.rank, peer, b.channel}];
    for (auto& slot : w.slots) slot.resize(slice);
    return *(b.wires[entry] = &w);  // a map moves nothing
  };
  for (Block& b : blocks)
    for (int lane = 0; lane < levels; lane++)
      if (b.lanes[lane].reminds) wire(b, lane).untold = 0;
  int longest = 0;
  auto run = [&](Block& b) {
    const PieceStep& step = b.lanes[0].steps[b.next];
    for (int lane = 0; lane < 2 * levels; lane++) {
      const SlotUse& use = b.lanes[lane].steps[b.next].slots;
      if (step.recvMask >> lane & 1 && wire(b, lane).tail <= b.received[lane] + use.recvAhead) return false;
      if (step.sendMask >> lane & 1 && wire(b, lane).head + NCCL4J_SLOTS - wire(b, lane).untold <= b.sent[lane])
        return false;
    }
    if (step.recvMask >> levels || step.sendMask & ((1u << levels) - 1) || step.sendMask >> 2 * levels)
      fail("an entry of the other direction", b.rank);
    if (step.bytes == 0 || step.bytes % kUnit) fail("parts of elements", b.rank);
    auto from = [&](int lane) {
      const SlotUse& use = b.lanes[lane].steps[b.next].slots;
      Channel& w = wire(b, lane);
      const int place = (b.received[lane] + use.recvAhead) % NCCL4J_SLOTS;
      if (use.recvAhead >= NCCL4J_SLOTS) fail("a slot that is not there", b.rank);
      if (step.kind == STEP_REDUCE && use.recvAt + step.bytes > w.sizes[place]) fail("behind the message", b.rank);
      b.depth = std::max(b.depth, w.depth[place]);
      return &w.slots[place][use.recvAt];
    };
    auto to = [&](int lane) {
      const SlotUse& use = b.lanes[lane].steps[b.next].slots;
      if (use.sendAt % 16 || use.filled > slice || use.sendAt + step.bytes > slice) fail("outside the slot", b.rank);
      return &wire(b, lane).slots[b.sent[lane] % NCCL4J_SLOTS][use.sendAt];
    };
    auto inUsers = [&](const void* p, u64 bytes) {
      const uint8_t* q = (const uint8_t*)p;
      for (auto* all : {&sends[b.rank], &recvs[b.rank]})
        if (q >= all->data() && q + bytes <= all->data() + all->size()) return;
      fail("outside the buffers", b.rank);
    };
    if (step.kind == STEP_PIECES) {
      const int lane = __builtin_ctz(step.recvMask | step.sendMask);
      uint8_t* slot = step.recvMask ? from(lane) : to(lane);
      if (step.pieces > kLanes) fail("more pieces than threads", b.rank);
      for (u32 i = 0; i < step.pieces; i++) {
        const PieceStep& mine = b.lanes[i].steps[b.next];
        if (mine.pieces != step.pieces || mine.apart != step.apart || mine.bytes != step.bytes)
          fail("threads differ", b.rank);
        if (mine.src) inUsers(mine.src, mine.bytes);
        if (mine.dst) inUsers(mine.dst, mine.bytes);
        const u32 place = (step.recvMask ? step.slots.recvAt : step.slots.sendAt) + i * mine.apart;
        if ((!mine.src || !mine.dst) && place + mine.bytes > slice) fail("outside the slot", b.rank);
        memcpy(mine.dst ? (uint8_t*)mine.dst : slot + i * mine.apart,
               mine.src ? (const uint8_t*)mine.src : slot + i * mine.apart, mine.bytes);
      }
    } else {
      std::vector<const uint8_t*> sources;
      inUsers(step.src, step.bytes);
      sources.push_back((const uint8_t*)step.src);
      for (int lane = 0; lane < levels; lane++)
        if (step.recvMask >> lane & 1) sources.push_back(from(lane));
      if (step.dst) inUsers(step.dst, step.bytes);
      uint8_t* target = step.dst ? (uint8_t*)step.dst : to(__builtin_ctz(step.sendMask));
      for (u32 at = 0; at < step.bytes; at += 8) {
        uint64_t sum = 0;
        for (size_t s = 0; s < sources.size(); s++) {
          uint64_t x;
          memcpy(&x, sources[s] + at, 8);
          sum = s == 0 ? x : combine(sum, x);
        }
        memcpy(target + at, &sum, 8);
      }
    }
    for (int lane = 0; lane < 2 * levels; lane++) {
      if (step.recvMask >> lane & 1 && step.slots.releases) {
        wire(b, lane).head = ++b.received[lane];
        wire(b, lane).untold = 0;
      }
      if (step.sendMask >> lane & 1 && step.slots.posts) {
        Channel& w = wire(b, lane);
        const int place = b.sent[lane] % NCCL4J_SLOTS;
        w.sizes[place] = step.slots.filled;
        w.depth[place] = b.depth + 1;
        longest = std::max(longest, b.depth + 1);
        w.tail = ++b.sent[lane];
      }
    }
    b.next++;
    return true;
  };
  std::vector<Block*> order;
  for (Block& b : blocks) order.push_back(&b);
  for (bool moved = true; moved;) {
    moved = false;
    std::shuffle(order.begin(), order.end(), random);
    for (Block* at : order) {
      Block& b = *at;
      const int most = 1 + random() % 40;
      for (int i = 0; i < most && b.next < b.lanes[0].steps.size() && run(b); i++) moved = true;
    }
  }
  for (Block& b : blocks) {
    if (b.next < b.lanes[0].steps.size()) fail("waits for ever", b.rank);
    for (int lane = 0; lane < levels; lane++)
      if (wire(b, lane).tail != b.received[lane]) fail("messages are left", b.rank);
  }
  for (int rank = 0; rank < n; rank++) {
    const uint8_t* result = (const uint8_t*)args[rank].recv;
    for (u64 at = 0; at < (kCombines ? part : n * part); at += kUnit) {
      const uint64_t expected = kCombines ? subtree(n, rank, 0, rank * part + at) : value(at / part, at % part);
      if (memcmp(result + at, &expected, kUnit)) fail("a wrong result", rank);
    }
  }
  printf("%d\n", longest);
  return 0;
}
