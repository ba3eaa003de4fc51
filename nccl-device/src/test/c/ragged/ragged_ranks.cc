// Runs exchanges of ragged.cuh for all ranks on the host, as simt.h interleaves them, each rank as far ahead of the
// others as the kernels let it, and compares all that a rank stores with what the counts of all ranks give.
//   ragged_ranks NAME=NUMBER...
// Prints the calls, or the first error. With fault=1 to 5 the last call is wrong: a rank has a count that is not
// allowed, sends more than it has, would receive more than is allowed, is in another call, or has another count for the
// parts of a reduction.
#include <map>
#include <string>

#include "on_host.h"

#include "ragged.cuh"

using namespace nccl4j;
using simt::fail;

using u8 = uint8_t;

constexpr u8 kPoison = 0x5a;
constexpr u64 kGuard = 64;

static std::map<std::string, u64> given;

static u64 get(const char* name) {
  auto found = given.find(name);
  if (found == given.end()) fail(name, -1);
  return found->second;
}

enum Fault { NONE, INVALID_COUNT, SENDS_MORE, RECEIVES_MORE, OTHER_CALL, COUNTS_DIFFER };

// Of a reduction, as Java takes one of its type and operator.
constexpr u32 kReduction = 0x1234;

struct Call {
  bool gathers, combines;
  std::vector<std::vector<u64>> counts;  // from the first rank to the second
  u32 salt;
};

struct Rank {
  nccl4jRaggedArguments a;
  nccl4jControl control;
  std::vector<u64> calls;
  std::vector<u8> send, before;  // before: the memory of the received elements, and around it
  std::vector<u64> counts, receivedCounts, offsets;
  std::vector<std::unique_ptr<simt::Block>> blocks;
  std::vector<std::unique_ptr<ragged::Shared>> shared;
  u32 call = 0;
  bool inFault = false;  // the wrong call has begun here: others may fail in it while this rank is in the one before
};

static std::vector<Call> calls;
static std::vector<Rank> ranks;
static u32 n, gridBlocks, threads, elementBytes, wide, fault;
static u64 maxCount, maxReceived, stride, receivedAt;

static u8 byteOf(const Call& call, u32 source, u32 target, u64 at) {
  return (u8)(call.salt + 31 * source + (call.gathers ? 0 : 131 * (target + 1)) + at * 7 + (at >> 8) * 13);
}

static u64 drawCount(u32 kind) {
  auto& random = simt::random;
  const u64 any = random() % (maxCount + 1);
  switch (kind) {
    case 0: return any;
    case 1: return random() % 2 ? 0 : any;
    case 2: return maxCount;
    default: return random() % (min(maxCount, (u64)20) + 1);
  }
}

static Call draw() {
  auto& random = simt::random;
  Call call;
  call.gathers = random() % 3 == 0;
  call.combines = !call.gathers && random() % 2 == 0;
  call.salt = (u32)random();
  const u32 kind = random() % 4;
  call.counts.assign(n, std::vector<u64>(n));
  for (auto& of : call.counts) {
    const u64 same = drawCount(kind);
    for (u64& count : of) count = call.gathers ? same : drawCount(kind);
  }
  if (call.combines) {
    for (u64& count : call.counts[0]) count = min(count, maxReceived / n);
    std::fill(call.counts.begin(), call.counts.end(), call.counts[0]);
  }
  for (u32 target = 0; target < n; target++) {  // no rank may receive more than is allowed
    u64 room = maxReceived;
    for (u32 source = 0; source < n; source++) {
      u64& count = call.counts[source][target];
      count = min(count, room);
      room -= count;
    }
  }
  return call;
}

// Makes the last rank's part of a call wrong.
static void spoil(Call& call) {
  call.gathers = false;
  call.combines = fault == COUNTS_DIFFER;
  for (auto& of : call.counts) std::fill(of.begin(), of.end(), 0);
  if (fault == INVALID_COUNT) call.counts[n - 1][0] = simt::random() % 2 ? maxCount + 1 : ~0ull;
  if (fault == SENDS_MORE) call.counts[n - 1][n - 1] = 1;
  if (fault == RECEIVES_MORE)
    for (auto& of : call.counts) of[0] = maxCount;
  if (fault == COUNTS_DIFFER) call.counts[n - 1][1] = 1;
  if (fault == OTHER_CALL)
    for (auto& of : call.counts) of[0] = 1;
}

static bool isFault(u32 call) { return fault != NONE && call + 1 == calls.size(); }

static u8* received(u32 me) { return (u8*)windowsBegin + me * stride + receivedAt; }

static void putCount(void* to, u32 i, u64 count) {
  if (wide)
    ((u64*)to)[i] = count;
  else
    ((u32*)to)[i] = (u32)count;
}

static u64 getCount(const void* from, u32 i) { return wide ? ((const u64*)from)[i] : ((const u32*)from)[i]; }

// The memory for the counts of a call.
static void* countsOf(u32 me) {
  Rank& rank = ranks[me];
  switch (simt::random() % 6) {
    case 0: return rank.receivedCounts.data();
    case 1: return (char*)rank.offsets.data() + (wide ? 8 : 4);
    case 2: {
      u8* begin = received(me) + (0 - (u64)received(me)) % 8;
      return begin + 8 * n <= received(me) + maxReceived * elementBytes ? (void*)begin : rank.counts.data();
    }
    default: return rank.counts.data();
  }
}

static void launch(u32 me) {
  auto& random = simt::random;
  Rank& rank = ranks[me];
  const Call& call = calls[rank.call];
  nccl4jRaggedArguments& a = rank.a;
  rank.inFault = isFault(rank.call);
  a.gathers = call.gathers != (rank.inFault && fault == OTHER_CALL && me == n - 1);
  a.combines = call.combines;
  a.signature = a.gathers ? 2 : a.combines ? kReduction : 1;
  const u32 numbers = a.gathers ? 1 : n;
  std::fill(received(me) - kGuard, received(me) + maxReceived * elementBytes + kGuard, kPoison);
  std::fill(rank.receivedCounts.begin(), rank.receivedCounts.end(), kPoison);
  std::fill(rank.offsets.begin(), rank.offsets.end(), kPoison);
  void* counts = countsOf(me);
  for (u32 target = 0; target < numbers; target++) putCount(counts, target, call.counts[me][target]);
  rank.before.assign(received(me) - kGuard, received(me) + maxReceived * elementBytes + kGuard);
  a.counts = (u64)counts;
  a.keepsCounts = counts == rank.counts.data() && random() % 4 != 0;
  u8* send = &rank.send[16 + random() % 17];
  a.send = (u64)send;
  a.sendElements = 0;
  for (u32 target = 0; target < numbers; target++) {
    const u64 count = min(call.counts[me][target], maxCount);
    for (u64 i = 0; i < count * elementBytes; i++) *send++ = byteOf(call, me, target, i);
    a.sendElements += count;
  }
  a.sendElements = rank.inFault && fault == SENDS_MORE && me == n - 1 ? 0 : a.sendElements + random() % 3;
  rank.blocks.clear();
  for (u32 b = 0; b < gridBlocks; b++) {
    memset(rank.shared[b].get(), 0x77, sizeof(ragged::Shared));
    rank.blocks.push_back(simt::start(b, gridBlocks, threads, [me, b] {
      Rank& r = ranks[me];
      ragged::exchange(r.a, *r.shared[b]);
    }));
  }
}

// True if a rank's memory around and behind some received bytes is as before the call.
static bool isKept(u32 me, u64 bytes) {
  const std::vector<u8>& before = ranks[me].before;
  const u8* now = received(me) - kGuard;
  const u64 end = kGuard + bytes;
  return std::equal(now, now + kGuard, before.begin()) &&
         std::equal(now + end, now + before.size(), before.begin() + end);
}

// After a rank's call has ended.
static void check(u32 me) {
  const Rank& rank = ranks[me];
  const Call& call = calls[rank.call];
  const u8* at = received(me);
  u64 all = 0;
  for (u32 source = 0; source < n; source++) {
    const u64 count = call.counts[source][me];
    if (getCount(rank.receivedCounts.data(), source) != count) fail("a wrong count", me);
    if (getCount(rank.offsets.data(), source) != (call.combines ? 0 : all)) fail("a wrong offset", me);
    for (u64 i = 0; i < count * elementBytes; i++)
      if (*at++ != byteOf(call, source, me, i)) fail("a wrong element", me);
    all += count;
  }
  const u64 end = call.combines ? call.counts[me][me] : all;
  if (getCount(rank.offsets.data(), n) != end) fail("a wrong number of elements", me);
  if (!isKept(me, all * elementBytes)) fail("something around the elements", me);
  for (u64 number : rank.calls)
    if (number != rank.call + 1) fail("a wrong number of calls", me);
}

// After all kernels have ended by the fault of the last rank: no rank has stored an element of the wrong call.
static void checkFault() {
  const u32 last = n - 1;
  const u32 kinds[] = {0, ragged::kInvalidCount, ragged::kSendsMore, ragged::kReceivesMore, kOtherCall,
                       ragged::kCountsDiffer};
  const u64 invalid = calls.back().counts[last][0];
  const u64 steps[] = {0, wide ? invalid : (u64)(int)invalid, 1, n * maxCount, 0, 1};
  bool reported = false;
  for (u32 me = 0; me < n; me++) {
    const nccl4jControl& control = ranks[me].control;
    if (ranks[me].inFault && !isKept(me, 0)) fail("an element of a call that is refused", me);
    if (!control.failed) continue;
    reported = true;
    if (control.failedKind != kinds[fault]) fail("a failure of another kind", me);
    if (fault == OTHER_CALL) continue;
    if (control.failedPeer != (int)(fault == RECEIVES_MORE ? 0 : last)) fail("a failure of another rank", me);
    if (control.failedStep != steps[fault]) fail("a failure by another number", me);
  }
  if (!reported) fail("no failure", -1);
}

static void prepare(u32 me, u64 place) {
  Rank& rank = ranks[me];
  nccl4jRaggedArguments& a = rank.a;
  memset(&a, 0, sizeof a);
  memset(&rank.control, 0, sizeof rank.control);
  rank.calls.resize(gridBlocks);
  rank.send.resize(n * maxCount * elementBytes + 64);
  rank.counts.resize(n);
  rank.receivedCounts.resize(n);
  rank.offsets.resize(n + 1);
  a.comm.control = (u64)&rank.control;
  a.comm.budget = 1000;
  a.comm.rank = me;
  a.comm.nRanks = n;
  a.window = (u64)windowsBegin;
  a.stride = stride;
  a.counted = get("counted");
  a.lines = get("lines");
  a.lineBytes = get("lineBytes");
  a.flags = get("flags");
  a.received = place;
  a.calls = (u64)rank.calls.data();
  a.receivedCounts = (u64)rank.receivedCounts.data();
  a.receivedOffsets = (u64)rank.offsets.data();
  a.maxCount = maxCount;
  a.maxReceived = maxReceived;
  a.elementBytes = elementBytes;
  a.wide = wide;
  for (u32 b = 0; b < gridBlocks; b++) rank.shared.emplace_back(new ragged::Shared);
}

// Runs all calls of all ranks. Often a block rests for a while, so that others come as far as they can without it.
static void run() {
  u32 restingRank = 0, restingBlock = 0;
  u64 steps = 0, rests = 0;
  for (u32 me = 0; me < n; me++) launch(me);
  for (u32 running = n; running > 0; steps++) {
    if (steps > 1ull << 28) fail("waits for ever", -1);
    if (steps == rests) {
      restingRank = simt::random() % (n + 1);
      restingBlock = simt::random() % gridBlocks;
      rests = steps + 1 + simt::random() % (1ull << simt::random() % 16);
    }
    for (u64 i = simt::random() % 8; i > 0; i--) arrive();
    const u32 me = simt::random() % n, block = simt::random() % gridBlocks;
    Rank& rank = ranks[me];
    if (rank.call == calls.size() || (me == restingRank && block == restingBlock)) continue;
    simt::runWarp(*rank.blocks[block], simt::random() % (threads / 32));
    bool aborts = false;
    for (const Rank& any : ranks) aborts |= any.control.abort;
    if (aborts)
      for (Rank& any : ranks) any.control.abort = 1;  // as the hosts do
    auto runs = [](auto& b) { return b->ended < b->lanes.size(); };
    if (std::any_of(rank.blocks.begin(), rank.blocks.end(), runs)) continue;
    for (auto& ended : rank.blocks) release(ended.get());
    if (aborts && fault == NONE) fail("a failure", me);
    if (!aborts) check(me);
    rank.call = aborts ? calls.size() : rank.call + 1;
    if (rank.call < calls.size())
      launch(me);
    else
      running--;
  }
}

int main(int count, char** arguments) {
  for (int i = 1; i < count; i++) {
    const char* value = strchr(arguments[i], '=');
    given[std::string(arguments[i], value - arguments[i])] = strtoull(value + 1, nullptr, 10);
  }
  simt::random.seed(get("seed"));
  packsAreLate = true;
  n = get("nRanks");
  gridBlocks = get("blocks");
  threads = get("threads");
  elementBytes = get("elementBytes");
  maxCount = get("maxCount");
  maxReceived = get("maxReceived");
  wide = get("wide");
  fault = get("fault");
  const u32 number = get("calls");
  for (u32 i = 0; i < number; i++) calls.push_back(draw());
  if (fault != NONE) spoil(calls.back());
  receivedAt = get("windowBytes") + kGuard + simt::random() % 16;
  stride = (receivedAt + maxReceived * elementBytes + kGuard + 127) / 128 * 128;
  std::vector<uint4> windows(n * stride / 16);
  windowsBegin = (char*)windows.data();
  windowsEnd = windowsBegin + n * stride;
  ranks.resize(n);
  for (u32 me = 0; me < n; me++) prepare(me, receivedAt);
  run();
  if (fault != NONE) checkFault();
  printf("%u\n", number);
  return 0;
}
