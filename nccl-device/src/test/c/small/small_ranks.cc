// Runs small sends and receives (p2p_small.cuh) for all ranks on the host, as simt.h interleaves their warps, each rank as
// far ahead of the others as the kernels let it. Compares what arrives, the bytes around it, and how many steps the ends
// of kernels leave untold.
//   small_ranks RANKS KERNELS SEED
// Prints the number of messages, or the first error.
#include "on_host.h"
#include "p2p_small.cuh"

using namespace nccl4j;

constexpr u32 kSlot = 512 * NCCL4J_CHANNELS, kMostParts = 3;
constexpr u64 kDataSide = NCCL4J_HEADER_BYTES + NCCL4J_SLOTS * kSlot, kGuard = 32;

struct Message {
  int from, to;
  u32 signature, parts;
  u64 bytes;
};

// A kernel of every rank.
struct Call {
  u32 user;  // communicator, of those that share the connections
  std::vector<Message> messages;
};

// A rank's messages to another, or from it, of one kernel, in order.
struct Group {
  nccl4jGroup ends{};
  std::vector<Message> messages;
  std::vector<std::vector<uint8_t>> buffers;  // with a guard at both ends
};

struct Rank {
  nccl4jP2pArguments arguments;
  nccl4jControl control;
  std::vector<std::vector<nccl4jSteps>> steps;  // by peer and channel
  std::vector<Group> groups;
  std::vector<std::unique_ptr<simt::Block>> blocks;
  u32 threads, done = 0;
};

static int n;
static std::vector<Rank> ranks;
static std::vector<uint4> memory;  // of all connections: the data side of each and its credit side

static char* dataOf(int from, int to) {
  return (char*)memory.data() + (u64)(from * n + to) * (kDataSide + NCCL4J_HEADER_BYTES);
}

static char* creditOf(int from, int to) { return dataOf(from, to) + kDataSide; }

static uint8_t byteOf(const Message& m, u64 at) { return (uint8_t)(m.signature * 7 + at * 13 + at / 256); }

static void add(int me, int peer, bool sends, const Message& m) {
  Rank& rank = ranks[me];
  auto group = std::find_if(rank.groups.begin(), rank.groups.end(), [&](const Group& g) {
    return g.ends.peer == peer && (g.ends.kind == GROUP_SEND) == sends;
  });
  if (group == rank.groups.end()) {
    group = rank.groups.emplace(group);
    const int from = sends ? me : peer, to = sends ? peer : me;
    group->ends.data = (u64)dataOf(from, to);
    group->ends.credit = (u64)creditOf(from, to);
    group->ends.steps = (u64)rank.steps[peer].data();
    group->ends.peer = (uint16_t)peer;
    group->ends.kind = sends ? GROUP_SEND : GROUP_RECV;
    group->ends.blockStep = 1;
  }
  group->messages.push_back(m);
  group->ends.nBlocks = (uint16_t)max((u32)group->ends.nBlocks, m.parts);
  group->buffers.emplace_back(m.bytes + 2 * kGuard, 0xa5);
  for (u64 at = 0; sends && at < m.bytes; at++) group->buffers.back()[kGuard + at] = byteOf(m, at);
}

// As MessageGroups does: returns the number of blocks. Some groups share blocks in turn with the next.
static u32 place(Rank& rank) {
  nccl4jP2pArguments& a = rank.arguments;
  u32 blocks = 0, first = 0, works = 0;
  bool shared = false;  // with the group before
  a.nGroups = (u32)rank.groups.size();
  for (u32 g = 0; g < a.nGroups; g++) {
    Group& group = rank.groups[g];
    const bool shares = !shared && g + 1 < a.nGroups && simt::random() % 2;
    first = shared ? first + 1 : blocks;
    group.ends.blockStep = shared || shares ? 2 : 1;
    blocks = max(blocks, first + (group.ends.blockStep == 2 ? 2 * group.ends.nBlocks - 1 : group.ends.nBlocks));
    group.ends.firstBlock = (uint16_t)first;
    group.ends.firstWork = works;
    group.ends.nWorks = (u32)group.messages.size();
    a.inlineGroups[g] = group.ends;
    for (size_t i = 0; i < group.messages.size(); i++) {
      const Message& m = group.messages[i];
      nccl4jWork& work = a.inlineWorks[works++];
      memset(&work, 0, sizeof work);
      work.address = (u64)group.buffers[i].data() + kGuard;
      work.bytes = m.bytes;
      work.base = BASE_NONE;
      work.protocol = LL;
      work.parts = (uint8_t)m.parts;
      work.signature = (uint16_t)m.signature;
    }
    shared = shares;
  }
  return blocks;
}

static void launch(int me, const Call& call) {
  Rank& rank = ranks[me];
  rank.arguments.comm.user = call.user;
  rank.groups.clear();
  rank.blocks.clear();
  for (const Message& m : call.messages) {
    if (m.from == me) add(me, m.to, true, m);
    if (m.to == me) add(me, m.from, false, m);
  }
  rank.threads = 64 * (1 + simt::random() % 2);
  const u32 blocks = place(rank);
  for (u32 b = 0; b < blocks; b++)
    rank.blocks.push_back(simt::start(b, blocks, rank.threads, [&rank] { runSmallP2p(rank.arguments); }));
}

// Compares the data that have arrived, and counts the steps that the sender was not told of.
static void check(int me) {
  for (const Group& group : ranks[me].groups) {
    for (size_t i = 0; i < group.messages.size(); i++) {
      const Message& m = group.messages[i];
      const std::vector<uint8_t>& buffer = group.buffers[i];
      for (u64 at = 0; at < buffer.size(); at++) {
        const bool inside = at >= kGuard && at < kGuard + m.bytes;
        if (buffer[at] != (inside ? byteOf(m, at - kGuard) : 0xa5)) simt::fail("a wrong byte", me);
      }
    }
    if (group.ends.kind == GROUP_SEND) continue;
    for (u32 channel = 0; channel < kMostParts; channel++) {
      const u64 told = *(u64*)(group.ends.credit + channel * NCCL4J_WORD_STRIDE);
      const u64 received = ranks[me].steps[group.ends.peer][channel].received;
      if (channel < group.ends.nBlocks && received - told > NCCL4J_UNTOLD_STEPS)
        simt::fail("too many steps that the sender was not told of", me);
    }
  }
}

int main(int, char** arguments) {
  n = atoi(arguments[1]);
  const u32 kernels = atoi(arguments[2]);
  simt::random.seed(strtoull(arguments[3], nullptr, 10));
  memory.resize(n * n * (kDataSide + NCCL4J_HEADER_BYTES) / 16);
  windowsBegin = (char*)memory.data();
  windowsEnd = (char*)(memory.data() + memory.size());
  std::vector<Call> calls(kernels);
  u32 number = 0;
  for (Call& call : calls) {
    call.user = simt::random() % 5 / 4;
    for (u32 i = simt::random() % (2 * n); i-- > 0; number++) {
      const int from = simt::random() % n, to = (from + 1 + simt::random() % (n - 1)) % n;
      const u64 bytes = 1 + simt::random() % (simt::random() % 3 ? 600 : 9000);
      call.messages.push_back({from, to, 1 + (u32)simt::random() % 60000, 1 + (u32)simt::random() % kMostParts, bytes});
    }
  }
  ranks.resize(n);
  for (int r = 0; r < n; r++) {
    nccl4jSteps none;
    memset(&none, 0, sizeof none);
    nccl4jP2pArguments& a = ranks[r].arguments;
    memset(&a, 0, sizeof a);
    memset(&ranks[r].control, 0, sizeof ranks[r].control);
    a.comm.control = (u64)&ranks[r].control;
    a.comm.budget = 1000;
    a.comm.rank = r;
    a.comm.nRanks = n;
    a.comm.llSlot = kSlot;
    ranks[r].steps.assign(n, std::vector<nccl4jSteps>(NCCL4J_CHANNELS, none));
  }
  for (int r = 0; r < n; r++) launch(r, calls[0]);
  auto before = [] {
    if (simt::random() % 4 == 0) arrive();
  };
  simt::runRanks(ranks, kernels, before, [&](int me) {
    check(me);
    if (ranks[me].done < kernels) launch(me, calls[ranks[me].done]);
  });
  printf("%u messages\n", number);
  return 0;
}
