// Operations of direct kernels on the host: what ranks send, and checks of what they receive.
#pragma once
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "direct.cuh"

using namespace nccl4j;

constexpr u64 kGuard = 64;

static int n;  // ranks

using Buffer = std::vector<uint8_t>;

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
};

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
      const u64 expected = o.op == AVG ? divideElements<long long>(sum.sum[0], n) : sum.sum[0];
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
