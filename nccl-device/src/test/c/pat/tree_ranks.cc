// Runs the schedule of tree.cuh for all ranks, step by step in a random order, as the kernels' primitives would, and
// compares what they receive with what the trees give. Made twice: with FAMILY_COPY for the broadcast.
//   tree_ranks RANKS CHANNELS BYTES SLICE_BYTES COLLECTIVE ROOT IN_PLACE SEED
// Each channel has a random tree, in which a rank has at most NCCL4J_TREE_CHILDREN children beside its parent. Prints
// the longest chain of messages that wait for each other, or the first error.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#define __device__
#define __forceinline__ inline
static unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
#include "tree.cuh"

using namespace nccl4j;

constexpr int kUnit = kCombines ? 8 : 1, kEntries = 1 + NCCL4J_TREE_CHILDREN;

struct Recorder {
  std::vector<Step> steps;
  void run(const Step& step) { steps.push_back(step); }
};

// A connection's channel.
struct Channel {
  std::vector<std::vector<uint8_t>> slots = std::vector<std::vector<uint8_t>>(NCCL4J_SLOTS);
  std::vector<int> depth = std::vector<int>(NCCL4J_SLOTS);  // of the chain of messages before it
  u64 tail = 0, head = 0;
};

struct Block {
  int rank, channel;
  Recorder recorder;
  u64 next = 0;
  u64 sent[kEntries] = {}, received[kEntries] = {};
  int depth = 0;
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

static int peerOf(const nccl4jCollectiveArguments& a, int channel, int entry) {
  return entry == 0 ? a.treeUp[channel] : a.treeDown[entry - 1][channel];
}

static std::vector<nccl4jCollectiveArguments> args;

// The sum of a rank and those below it: its own data first, then its children's in the order of the fan.
static uint64_t sum(int rank, int parent, int channel, uint64_t at) {
  uint64_t all = value(rank, at);
  for (int entry = 0; entry < kEntries; entry++) {
    const int peer = peerOf(args[rank], channel, entry);
    if (peer != NCCL4J_NONE && peer != parent) all = combine(all, sum(peer, rank, channel, at));
  }
  return all;
}

// Hangs a rank's neighbours below it, and those of each of these below that one.
static void hang(const std::vector<std::vector<int>>& neighbours, int rank, int parent, int channel) {
  std::vector<int> children;
  for (int peer : neighbours[rank])
    if (peer != parent) children.push_back(peer);
  const bool full = children.size() == kEntries;
  args[rank].treeUp[channel] = parent >= 0 ? parent : full ? children.back() : NCCL4J_NONE;
  for (int i = 0; i < NCCL4J_TREE_CHILDREN; i++)
    args[rank].treeDown[i][channel] = i < (int)children.size() ? children[i] : NCCL4J_NONE;
  for (int child : children) hang(neighbours, child, rank, channel);
}

int main(int, char** arguments) {
  const int n = atoi(arguments[1]), channels = atoi(arguments[2]);
  const u64 bytes = strtoull(arguments[3], nullptr, 10);
  const u32 slice = atoi(arguments[4]), collective = atoi(arguments[5]), root = atoi(arguments[6]);
  const bool inPlace = atoi(arguments[7]), both = collective == ALL_REDUCE;
  std::mt19937_64 random(strtoull(arguments[8], nullptr, 10));
  std::vector<std::vector<uint8_t>> sends(n), recvs(n);
  args.resize(n);
  for (int rank = 0; rank < n; rank++) {
    sends[rank].assign(bytes, 0x55);
    recvs[rank].assign(bytes, 0x77);
    for (u64 at = 0; at < bytes; at += kUnit) {
      const uint64_t v = value(rank, at);
      memcpy(&sends[rank][at], &v, kUnit);
    }
    nccl4jCollectiveArguments& a = args[rank];
    memset(&a, 0, sizeof a);
    a.comm.rank = rank;
    a.comm.nRanks = n;
    a.collective = collective;
    a.root = root;
    a.bytes = bytes;
    a.nChannels = channels;
    a.sliceBytes = slice;
    a.send = (uint64_t)sends[rank].data();
    a.recv = inPlace ? a.send : (uint64_t)recvs[rank].data();
  }
  std::vector<int> tops(channels);
  for (int channel = 0; channel < channels; channel++) {
    const int top = tops[channel] = both ? random() % n : root;
    std::vector<int> order(n);
    for (int i = 0; i < n; i++) order[i] = i;
    std::swap(order[0], order[top]);
    std::shuffle(order.begin() + 1, order.end(), random);
    std::vector<std::vector<int>> neighbours(n);
    const bool full = random() % 2;  // each rank has as many children as it may
    for (int i = 1; i < n; i++) {
      int above, tried = 0;
      do
        above = order[full ? tried++ : random() % i];
      while (neighbours[above].size() >= (both && above == top ? kEntries - 1 : kEntries));
      neighbours[above].push_back(order[i]);
      neighbours[order[i]].push_back(above);
    }
    hang(neighbours, top, -1, channel);
  }
  std::vector<Block> blocks;
  for (int rank = 0; rank < n; rank++) {
    for (int channel = 0; channel < channels; channel++) {
      Block block{rank, channel, {}};
      tree(block.recorder, args[rank], channel);
      blocks.push_back(block);
    }
  }
  std::map<std::vector<int>, Channel> wires;  // from, to, channel
  auto wire = [&](int from, int to, int channel) -> Channel& {
    Channel& w = wires[{from, to, channel}];
    for (auto& slot : w.slots) slot.resize(slice);
    return w;
  };
  auto in = [&](const Block& b, int entry) -> Channel& { return wire(peerOf(args[b.rank], b.channel, entry), b.rank, b.channel); };
  auto out = [&](const Block& b, int entry) -> Channel& { return wire(b.rank, peerOf(args[b.rank], b.channel, entry), b.channel); };
  int longest = 0;
  auto run = [&](Block& b) {
    const Step& step = b.recorder.steps[b.next];
    if ((step.recvMask | step.sendMask) >> kEntries) fail("no such entry", b.rank);
    for (int entry = 0; entry < kEntries; entry++) {
      const bool receives = step.recvMask >> entry & 1, posts = step.sendMask >> entry & 1;
      if ((receives || posts) && peerOf(args[b.rank], b.channel, entry) == NCCL4J_NONE) fail("no such peer", b.rank);
      if (receives && step.recvCount != b.received[entry]) fail("a wrong number of received steps", b.rank);
      if (posts && step.sendCount != b.sent[entry]) fail("a wrong number of sent steps", b.rank);
      if (receives && in(b, entry).tail <= b.received[entry]) return false;
      if (posts && out(b, entry).head + NCCL4J_SLOTS <= b.sent[entry]) return false;
    }
    if (step.bytes == 0 || step.bytes % kUnit || step.bytes > slice) fail("parts of elements", b.rank);
    if (step.kind != STEP_REDUCE) fail("a wrong step", b.rank);
    auto inUsers = [&](const void* p) {
      const uint8_t* q = (const uint8_t*)p;
      for (auto* all : {&sends[b.rank], &recvs[b.rank]})
        if (q >= all->data() && q + step.bytes <= all->data() + all->size()) return q;
      fail("outside the buffers", b.rank);
      return q;
    };
    std::vector<const uint8_t*> sources;
    if (step.src) sources.push_back(inUsers(step.src));
    for (int entry = 0; entry < kEntries; entry++) {
      if (!(step.recvMask >> entry & 1)) continue;
      const int place = b.received[entry] % NCCL4J_SLOTS;
      b.depth = std::max(b.depth, in(b, entry).depth[place]);
      sources.push_back(in(b, entry).slots[place].data());
    }
    if (sources.empty() || (!kCombines && sources.size() > 1)) fail("a wrong number of sources", b.rank);
    std::vector<uint8_t> result(step.bytes);
    for (u32 at = 0; at < step.bytes; at += kUnit) {
      uint64_t all = 0;
      for (size_t s = 0; s < sources.size(); s++) {
        uint64_t x = 0;
        memcpy(&x, sources[s] + at, kUnit);
        all = s == 0 ? x : combine(all, x);
      }
      memcpy(&result[at], &all, kUnit);
    }
    if (step.dst) memcpy((void*)inUsers(step.dst), result.data(), step.bytes);
    for (int entry = 0; entry < kEntries; entry++) {
      if (step.recvMask >> entry & 1) in(b, entry).head = ++b.received[entry];
      if (!(step.sendMask >> entry & 1)) continue;
      const int place = b.sent[entry] % NCCL4J_SLOTS;
      memcpy(out(b, entry).slots[place].data(), result.data(), step.bytes);
      out(b, entry).depth[place] = b.depth + 1;
      longest = std::max(longest, b.depth + 1);
      out(b, entry).tail = ++b.sent[entry];
    }
    b.next++;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (Block& b : blocks) {
      const int most = 1 + random() % 40;
      for (int i = 0; i < most && b.next < b.recorder.steps.size() && run(b); i++) moved = true;
    }
  }
  for (const Block& b : blocks)
    if (b.next < b.recorder.steps.size()) fail("waits for ever", b.rank);
  for (auto& w : wires)
    if (w.second.tail != w.second.head) fail("messages are left", w.first[1]);
  for (int channel = 0; channel < channels; channel++) {
    const Share share(bytes, channels, channel);
    for (int rank = 0; rank < n; rank++) {
      const uint8_t* result = (const uint8_t*)args[rank].recv;
      for (u64 at = share.begin; at < share.begin + share.bytes; at += kUnit) {
        uint64_t expected = kCombines ? sum(tops[channel], -1, channel, at) : value(root, at);
        if (collective == REDUCE && rank != root) {
          expected = 0x7777777777777777ull;  // only the root's receive buffer is written
          if (inPlace) expected = value(rank, at);
        }
        if (memcmp(result + at, &expected, kUnit)) fail("a wrong result", rank);
      }
    }
  }
  printf("%d\n", longest);
  return 0;
}
