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
#include "direct_group.cuh"

using namespace nccl4j;

constexpr u64 kLineBytes = 16 << 10, kGuard = 64;
constexpr u64 kEpoch = 0, kLines = 4096;

static int n;

struct Operation {
  u32 operation, op, root, signature;
  u64 bytes;  // of count elements
  bool is(std::initializer_list<u32> some) const { return std::find(some.begin(), some.end(), operation) != some.end(); }
  bool combines() const { return is({DIRECT_ALL_REDUCE, DIRECT_REDUCE_SCATTER, DIRECT_REDUCE}); }
  bool parts() const { return is({DIRECT_REDUCE_SCATTER, DIRECT_ALL_TO_ALL, DIRECT_SCATTER}); }
  bool fromRoot() const { return is({DIRECT_BROADCAST, DIRECT_SCATTER}); }
  bool toRoot() const { return is({DIRECT_REDUCE, DIRECT_GATHER}); }
  u64 sendBytes(int rank) const { return fromRoot() && rank != (int)root ? 0 : parts() ? n * bytes : bytes; }
  u64 recvBytes(int rank) const {
    return toRoot() && rank != (int)root ? 0 : combines() || fromRoot() ? bytes : n * bytes;
  }
  u64 lines() const { return ((bytes + 7) / 8 * 16 + 127) / 128 * 128; }
};

using Group = std::vector<Operation>;
using Buffer = std::vector<uint8_t>;

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

static uint8_t input(int rank, u64 call, u64 at) { return (uint8_t)((rank + 1) * 37 + call * 101 + at * 7 + at / 256); }

static uint64_t word(int rank, u64 call, u64 at) {
  uint8_t bytes[8];
  for (u64 i = 0; i < 8; i++) bytes[i] = input(rank, call, at + i);
  uint64_t x;
  memcpy(&x, bytes, 8);
  return x;
}

static void check(int rank, u64 call, const Operation& o, const uint8_t* recv) {
  bool good = true;
  if (o.recvBytes(rank) == 0) return;
  if (o.combines()) {
    const u64 from = o.parts() ? rank * o.bytes : 0;
    for (u64 at = 0; at < o.bytes; at += 8) {
      Accumulator<long long, 1> sum{};
      for (int r = 0; r < n; r++) {
        const u64 x[1] = {word(r, call, from + at)};
        if (r == 0) sum.set(x, {});
        else sum.add(o.op, x, {});
      }
      const u64 expected = o.op == AVG ? divideElements<long long>(sum.sum, n) : sum.sum;
      good &= memcmp(recv + at, &expected, 8) == 0;
    }
  } else {
    for (int r = 0; r < n; r++)
      for (u64 at = 0; at < o.bytes && (!o.fromRoot() || r == (int)o.root); at++)
        good &= recv[(o.fromRoot() ? 0 : r * o.bytes) + at] == input(r, call, (o.parts() ? rank * o.bytes : 0) + at);
  }
  if (good) return;
  printf("a wrong result of call %llu, operation %u of %llu bytes, rank %d\n", call, o.operation, o.bytes, rank);
  fflush(stdout);
  _Exit(1);
}

// The buffers of a call: in place by chance, which is each rank's own affair.
struct Call {
  Buffer send, recv;
  uint8_t *from, *to;

  Call(int rank, u64 call, const Operation& o, std::mt19937_64& random) {
    const u64 sends = o.sendBytes(rank), recvs = o.recvBytes(rank);
    send.resize(sends + 2 * kGuard);
    recv.assign(recvs + 2 * kGuard, 0xa5);
    from = send.data() + kGuard;
    to = recv.data() + kGuard;
    if (random() % 2 && sends <= recvs) from = to + (sends < recvs ? rank * sends : 0);
    for (u64 at = 0; at < sends; at++) from[at] = input(rank, call, at);
  }

  void checkAround(int rank, u64 call) const {
    for (u64 i = 0; i < kGuard; i++)
      if (recv[i] != 0xa5 || recv[recv.size() - 1 - i] != 0xa5) {
        printf("something around the result of call %llu, rank %d\n", call, rank);
        fflush(stdout);
        _Exit(1);
      }
  }
};

static void together(int rank, u64 first, const Group& group, std::mt19937_64& random) {
  std::vector<Call> calls;
  for (size_t w = 0; w < group.size(); w++) calls.emplace_back(rank, first + w, group[w], random);
  std::vector<u64> lines(group.size() + 1);
  for (size_t w = 0; w < group.size(); w++) lines[w + 1] = lines[w] + group[w].lines();
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

static Operation draw(bool combines, u64 most, std::mt19937_64& random) {
  Operation o;
  const u32 combining[] = {DIRECT_ALL_REDUCE, DIRECT_REDUCE_SCATTER, DIRECT_REDUCE};
  const u32 copying[] = {DIRECT_ALL_GATHER, DIRECT_ALL_TO_ALL, DIRECT_BROADCAST, DIRECT_SCATTER, DIRECT_GATHER};
  o.operation = combines ? combining[random() % 3] : copying[random() % 5];
  o.root = random() % n;
  const u32 ops[] = {SUM, MAX, MIN, AVG};
  o.op = ops[random() % 4];
  o.signature = 1 + random() % 60000;
  o.bytes = 1 + random() % most;
  if (combines) o.bytes = (o.bytes + 7) / 8 * 8;
  return o;
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
      if (taken + o.lines() > kLineBytes) break;
      taken += o.lines();
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
