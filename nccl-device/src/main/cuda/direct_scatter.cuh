// Reduce-scatter beside copy engines, between two ranks. Engines move the first part of a rank's data for
// the other to the place of the other's result, in copies that become smaller. The first blocks move the
// rest, in units, which fill the links while engines begin and end a copy. The other blocks combine data
// as they arrive, so little is left after the last copy.
#pragma once
#include "direct_beside.cuh"

namespace nccl4j {
namespace direct {

// The next input of a block that combines.
enum Next : u32 { kCopy, kUnit };

// One thread: takes an arrived copy of the other's engines, or an arrived unit of one of its movers.
__device__ __forceinline__ u32 awaitNext(const nccl4jBesideArguments& m, bool copies, u32 copy,
                                         bool units, u32 mover, u64 unit) {
  const nccl4jDirectArguments& a = m.direct;
  const char *came = own(a, m.engine + BESIDE_CAME), *moved = own(a, m.engine + BESIDE_UNITS + 8 * mover);
  Patience patience(a.comm);
  while (true) {
    if (copies && reached(loadFlagAcquire(came), copy)) return kCopy;
    if (units && loadWordAcquire(moved) - unit < 1ull << 32) return kUnit;  // of the same kernel
    if (patience.exhausted(1 - a.comm.rank, blockIdx.x, 0, copy)) return copies ? kCopy : kUnit;
  }
}

// Combines a range on some blocks, with data that the other rank has sent or still has.
template <class T>
__device__ __forceinline__ void addRange(const nccl4jDirectArguments& a, Share share, u64 begin, u64 end,
                                         const char* came) {
  const int rank = a.comm.rank;
  const char* mine = (const char*)a.send + rank * a.bytes;
  char* here = (char*)a.recv;
  combineBoth<T>(
      a, share, begin, end, placesOf((u64)mine, a.recv),
      [&](int r) { return r == rank ? mine : came; },
      [&](u64 at, Pack x) { storeData(here + at, x); },
      [&](u64 at, u64 x, u32 bytes) { storeElements<T>(here + at, x, bytes); });
}

// Stores units to the other rank. Then helps to combine the last data of the other rank's engines.
template <class T>
__device__ __forceinline__ void moveUnits(const nccl4jBesideArguments& m, u32 number, u32 theirs) {
  const nccl4jDirectArguments& a = m.direct;
  const int other = 1 - a.comm.rank;
  const u64 all = a.bytes, brought = m.engineBytes, unit = m.unit;
  const char* given = (const char*)a.send + other * all;
  char *there = recvOf(a, other), *word = peer(a, other, m.engine + BESIDE_UNITS + 8 * blockIdx.x);
  u64 moved = (u64)number << 32;
  for (u64 at = brought + blockIdx.x * unit; at < all; at += unit * m.movers) {
    copyRange<4>(there, given, at, min(all, at + unit), {0, 1});
    moved++;
    __syncthreads();
    if (threadIdx.x == 0) storeWordRelease(word, moved);
  }
  if (theirs == 0) return;
  u64 last = 0;
  u32 copies = 1;
  for (u64 size; last + (size = copyBytes(m, last)) < brought; last += size) copies++;
  if (threadIdx.x == 0) awaitEngine(m, BESIDE_CAME, NCCL4J_BESIDE_COPIES * theirs + copies);
  __syncthreads();
  addRange<T>(a, allBlocks(), last, brought, (const char*)a.recv);
}

// Combines arriving data: all these blocks combine each copy, and some of them each mover's units.
template <class T>
__device__ __forceinline__ void combineBeside(const nccl4jBesideArguments& m, u32 number, u32 theirs) {
  __shared__ u32 kind;
  const nccl4jDirectArguments& a = m.direct;
  const int rank = a.comm.rank;
  const u64 all = a.bytes, brought = m.engineBytes, unit = m.unit;
  const Share share = {blockIdx.x - m.movers, gridDim.x - m.movers};
  const u32 mover = share.block % m.movers, part = share.block / m.movers;
  const u32 parts = share.blocks / m.movers;
  const u64 slice = (unit / parts + 127) & ~127ull;
  u64 at = 0, next = part < parts ? brought + mover * unit : all, moved = (u64)number << 32;
  u32 copies = 0;
  if (theirs == 0) {  // it has no engines
    addRange<T>(a, share, 0, brought, sendOf(a, 1 - rank) + rank * all);
    at = brought;
  }
  while (at < brought || next < all) {
    __syncthreads();
    if (threadIdx.x == 0)
      kind = awaitNext(m, at < brought, NCCL4J_BESIDE_COPIES * theirs + copies + 1, next < all, mover, moved + 1);
    __syncthreads();
    u64 begin = at, end;
    Share by = {0, 1};
    if (kind == kCopy) {
      end = at += copyBytes(m, at);
      by = end == brought ? allBlocks() : share;
      copies++;
    } else {
      begin = min(all, next + min(unit, part * slice));
      end = min(all, next + min(unit, (part + 1) * slice));
      next += unit * m.movers;
      moved++;
    }
    addRange<T>(a, by, begin, end, (const char*)a.recv);
  }
}

template <class T>
__device__ __forceinline__ void scatterBeside(const nccl4jBesideArguments& m) {
  __shared__ u32 shared;
  const nccl4jDirectArguments& a = m.direct;
  begin(a);
  const u32 number = epoch(a);
  beginBeside(m, number);
  if (threadIdx.x == 0) shared = theirNumber(m, number);
  __syncthreads();
  const u32 theirs = shared;
  if (m.number == 0 && theirs == 0) {  // no engines: loads by all blocks fill the links best
    const int rank = a.comm.rank;
    addRange<T>(a, allBlocks(), 0, a.bytes, sendOf(a, 1 - rank) + rank * a.bytes);
  } else if (blockIdx.x < m.movers) {
    moveUnits<T>(m, number, theirs);
  } else {
    combineBeside<T>(m, number, theirs);
  }
  if (m.number != 0 && leads()) awaitEngine(m, BESIDE_ENDED, m.number);
  // All data of the other rank have arrived, so it needs nothing more of this rank, unless one rank loads
  // from the other.
  if (m.number == 0 || theirs == 0) meetAtEnd(a, number);
  finish(a, number);
}

}  // namespace direct
}  // namespace nccl4j
