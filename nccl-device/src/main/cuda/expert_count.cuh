// The rows of received tokens, in the order of local expert, source rank, token and k. Every block finds those of
// its own tokens from the tables of all ranks, and so waits for no other block of its rank.
//
// An exchange of few entries: each entry of a local expert becomes a key, of its expert and its place in the
// tables. Its row is the number of lower keys. A warp takes what has come of the tables once it has sent its
// tokens, so counting and sending overlap.
//
// Of many entries each warp counts its part by expert, and the counts of the warps in front are added.
#pragma once
#include "expert_lines.cuh"

namespace nccl4j {
namespace experts {

constexpr u32 kTableSignature = 1;
constexpr u32 kLineEntries = 4;  // of a table's line, 16 bits each
constexpr u32 kNoExpert = 0xffff;
constexpr u32 kPlacesHere = 1024;
constexpr u32 kCells = 16 * NCCL4J_EXPERT_LOCAL;  // of experts and warps that count rows
constexpr u32 kFewBits = 13;
constexpr u32 kFew = 1u << kFewBits;  // the most entries of which keys are kept

struct DispatchShared {
  union {
    u32 before[kCells];  // rows of an expert that a warp counts, then those of the warps in front
    u32 keys[kFew];
  };
  u32 first[NCCL4J_EXPERT_LOCAL];          // an expert's first row, from that of its 32 on
  u32 bases[NCCL4J_EXPERT_LOCAL / 32];     // rows of 32 experts
  u32 entries[NCCL4J_EXPERT_RANKS + 1];    // entries of the ranks in front; of many each padded to whole warps
  u32 counts[NCCL4J_EXPERT_RANKS];         // tokens of each rank
  u32 counted;                             // 1: the counts are known
  u32 kept;                                // keys
  u32 listed;
  u32 batches, batchTokens;                // of combine: nccl4jExpertState
  u32 listedOf[NCCL4J_EXPERT_BATCHES];
  nccl4jExpertPlace places[kPlacesHere];   // nccl4jExpertArguments.places, if there is room
};

__device__ __forceinline__ u32 linesOf(u32 entries) { return (entries + kLineEntries - 1) / kLineEntries; }

// The places of the entries of this block's tokens, by source rank.
__device__ __forceinline__ nccl4jExpertPlace* placesOf(const nccl4jExpertArguments& a, DispatchShared& s) {
  return a.listCapacity <= kPlacesHere ? s.places
                                       : (nccl4jExpertPlace*)a.places + blockIdx.x * a.listCapacity;
}

// Those of each source rank.
__device__ __forceinline__ u32 placesOfSource(const nccl4jExpertArguments& a) {
  return (u32)a.listCapacity / (u32)a.comm.nRanks;
}

// Before anything is counted. All threads.
__device__ __forceinline__ void clear(const nccl4jExpertArguments& a, DispatchShared& s) {
  for (u32 i = threadIdx.x; i < a.listCapacity; i += blockDim.x) placesOf(a, s)[i] = {kNobody, kNobody};
  if (threadIdx.x == 0) s.kept = s.listed = s.counted = 0;
  __syncthreads();
}

// Reads the lines of the ranks' tables.
class Tables {
 public:
  __device__ Tables(const nccl4jExpertArguments& a, u64 half, LineFlags flags)
      : a_(a), at_(a.tables + half * a.comm.nRanks * a.tableBytes), flags_(flags), patience_(a.comm) {}

  // A line may have come.
  __device__ __forceinline__ uint4 look(int source, u32 line) { return loadLine(place(source, line)); }

  // Waits for a line that was looked at.
  __device__ __forceinline__ u64 await(int source, u32 line, uint4 v) {
    while (!flags_.match(v) && !dead_) {
      if (++misses_ > kEagerLooks) __nanosleep(kPause);
      dead_ = patience_.exhausted(source, blockIdx.x, 0, flags_.step);
      v = look(source, line);
    }
    return (u64)v.z << 32 | v.x;
  }

  __device__ __forceinline__ u32 count(int source) { return (u32)await(source, 0, look(source, 0)); }

 private:
  __device__ __forceinline__ const char* place(int source, u32 line) {
    return own(a_, at_ + source * a_.tableBytes + 16ull * line);
  }

  const nccl4jExpertArguments& a_;
  u64 at_;
  LineFlags flags_;
  Patience patience_;
  u32 misses_ = 0;
  bool dead_ = false;
};

// The number of tokens of the rank with the lane's number. The block's last warp, which has the fewest tokens to
// send, looks at the tables, for all. All lanes of a warp.
__device__ __forceinline__ u32 awaitCounts(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  const u32 lane = threadIdx.x % 32;
  const bool its = lane < (u32)a.comm.nRanks;
  volatile u32* counted = &s.counted;
  if (threadIdx.x / 32 == blockDim.x / 32 - 1) {
    if (its) s.counts[lane] = min(tables.count(lane), a.maxTokens);
    __threadfence_block();
    __syncwarp();
    if (lane == 0) *counted = 1;
  } else {
    while (*counted == 0) __nanosleep(20);
    __threadfence_block();
  }
  return its ? ((volatile u32*)s.counts)[lane] : 0;
}

__device__ __forceinline__ u32 sumUpTo(u32 x) {
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 other = __shfl_up_sync(~0u, x, distance);
    if (threadIdx.x % 32 >= distance) x += other;
  }
  return x;
}

__device__ __forceinline__ u32 sumOfWarp(u32 x) {
#pragma unroll
  for (u32 distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

// Notes the row of an entry of this block, and lists it with its entry for combine.
__device__ __forceinline__ void keepRow(const nccl4jExpertArguments& a, DispatchShared& s, u32 cell, u32 row) {
  if (row >= a.rows) row = kNobody;
  placesOf(a, s)[cell].ahead = row;
  if (row == kNobody) return;
  const u32 ofSource = placesOfSource(a);
  const u32 token = cell % ofSource / a.topK * gridDim.x + blockIdx.x;
  const u32 entry = (cell / ofSource * a.maxTokens + token) * a.topK + cell % ofSource % a.topK;
  listOf(a)[atomicAdd(&s.listed, 1u)] = (u64)row << 32 | entry;
}

// The key of a place among the entries of all ranks. That behind the last of an expert is the next expert's first.
__device__ __forceinline__ u32 keyOf(u32 local, u32 place) { return (local << kFewBits) + place; }

// Keeps the keys of this warp's entries, and finds those of this block. All lanes of a warp. False if all ranks
// have too many.
__device__ __forceinline__ bool keepKeys(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  const u32 lane = threadIdx.x % 32, ofSource = placesOfSource(a);
  const u32 count = awaitCounts(a, tables, s);
  const u32 its = count * a.topK, upTo = sumUpTo(its), linesUpTo = sumUpTo(linesOf(its));
  // Every warp finds the same.
  if (lane < (u32)a.comm.nRanks) s.entries[lane + 1] = upTo;
  if (lane == 0) s.entries[0] = 0;
  if (__shfl_sync(~0u, upTo, 31) > kFew || a.listCapacity > kPlacesHere) return false;
  const u32 lines = __shfl_sync(~0u, linesUpTo, 31);
  // The last warps first, as they have few tokens to send.
#pragma unroll 1
  for (u32 first = (blockDim.x / 32 - 1 - threadIdx.x / 32) * 32; first < lines; first += blockDim.x) {
    const u32 line = min(first + lane, lines - 1);
    u32 source = 0;
#pragma unroll 1
    for (int r = 0; r + 1 < a.comm.nRanks; r++) source += line >= __shfl_sync(~0u, linesUpTo, r);
    const u32 at = line - __shfl_sync(~0u, linesUpTo - linesOf(its), source);
    const u32 ahead = __shfl_sync(~0u, upTo - its, source), end = __shfl_sync(~0u, its, source);
    const u64 experts = tables.await(source, 1 + at, tables.look(source, 1 + at));
    u32 entry = at * kLineEntries, token = entry / a.topK, k = entry % a.topK;
    u32 keys[kLineEntries], mine = 0;
#pragma unroll
    for (u32 h = 0; h < kLineEntries; h++, entry++, k++) {
      if (k == a.topK) {
        token++;
        k = 0;
      }
      const u32 local = (u32)(experts >> 16 * h & 0xffff) - a.comm.rank * a.localExperts;
      keys[h] = kNobody;
      if (first + lane != line || entry >= end || local >= a.localExperts) continue;
      keys[h] = keyOf(local, ahead + entry);
      mine++;
      const u32 cell = token / gridDim.x * a.topK + k;
      // A cell out of range is of a table that changed after a wait had been given up.
      if (token % gridDim.x == blockIdx.x && cell < ofSource) s.places[source * ofSource + cell].origin = keys[h];
    }
    const u32 mineUpTo = sumUpTo(mine);
    u32 to = 0;
    if (lane == 31) to = atomicAdd(&s.kept, mineUpTo);
    to = __shfl_sync(~0u, to, 31) + mineUpTo - mine;
#pragma unroll
    for (u32 h = 0; h < kLineEntries; h++)
      if (keys[h] != kNobody && to < kFew) s.keys[to++] = keys[h];
  }
  return true;
}

// The keys below one. All lanes of a warp.
__device__ __forceinline__ u32 lowerKeys(const DispatchShared& s, u32 key) {
  const u32 kept = min(s.kept, kFew);
  u32 lower = 0;
#pragma unroll 8
  for (u32 i = threadIdx.x % 32; i < kept; i += 32) lower += s.keys[i] < key;
  return sumOfWarp(lower);
}

// Finds the rows of this block's entries by their keys. Each block finds the counts of some experts.
__device__ __forceinline__ void findRows(const nccl4jExpertArguments& a, DispatchShared& s) {
  const u32 lane = threadIdx.x % 32, cells = a.listCapacity, nRanks = a.comm.nRanks;
  const u32 experts = blockIdx.x < a.localExperts ? (a.localExperts - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
#pragma unroll 1
  for (u32 item = threadIdx.x / 32; item < cells + experts * nRanks; item += blockDim.x / 32) {
    if (item < cells) {
      const u32 ofSource = placesOfSource(a), cell = inTurn(a, item / ofSource) * ofSource + item % ofSource;
      const u32 key = s.places[cell].origin;
      if (key == kNobody) continue;
      const u32 row = lowerKeys(s, key);
      if (lane == 0) keepRow(a, s, cell, row);
    } else {
      const u32 expert = blockIdx.x + (item - cells) / nRanks * gridDim.x, source = (item - cells) % nRanks;
      const u32 first = lowerKeys(s, keyOf(expert, s.entries[source]));
      const u32 end = lowerKeys(s, keyOf(expert, s.entries[source + 1]));
      if (lane != 0) continue;
      ((int*)a.counts)[expert * nRanks + source] = end - first;
      if (source == 0) ((int*)a.offsets)[expert] = first;
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) ((int*)a.offsets)[a.localExperts] = min(s.kept, kFew);
}

// Warps that count rows: as many as there is room for the counts of.
__device__ __forceinline__ u32 counters(const nccl4jExpertArguments& a) {
  return min(blockDim.x / 32, kCells / a.localExperts);
}

// The counts of a warp, by local expert.
__device__ __forceinline__ u32* before(const nccl4jExpertArguments& a, DispatchShared& s, u32 warp) {
  return s.before + warp * a.localExperts;
}

// A warp's way through its part of all ranks' entries, 32 of one rank at a time.
struct Entries {
  u32 round, end;
  int source = 0;

  __device__ __forceinline__ Entries(const nccl4jExpertArguments& a, const DispatchShared& s, u32 warp) {
    const u32 warps = counters(a), rounds = s.entries[a.comm.nRanks] / 32, each = (rounds + warps - 1) / warps;
    round = warp * each;
    end = warp < warps ? min(rounds, round + each) : 0;
    find(s);
  }

  __device__ __forceinline__ bool isAny() const { return round < end; }

  __device__ __forceinline__ void next(const DispatchShared& s) {
    round++;
    find(s);
  }

  // The entry of lane 0 among those of its rank.
  __device__ __forceinline__ u32 first(const DispatchShared& s) const { return round * 32 - s.entries[source]; }

  __device__ __forceinline__ bool has(const nccl4jExpertArguments& a, const DispatchShared& s, u32 entry) const {
    return entry < s.counts[source] * a.topK;
  }

 private:
  __device__ __forceinline__ void find(const DispatchShared& s) {
    while (isAny() && round * 32 >= s.entries[source + 1]) source++;
  }
};

// Counts this warp's entries of each local expert, and notes the places of those of this block's tokens.
__device__ __forceinline__ void countEntries(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s,
                                             Entries at, uint4 line) {
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, period = gridDim.x * a.topK;
  const u32 ofSource = placesOfSource(a);
  u32* counts = before(a, s, warp);
#pragma unroll 1
  while (at.isAny()) {
    const int source = at.source;
    const u32 first = at.first(s), entry = first + lane;
    u32 local = kNobody;
    if (at.has(a, s, entry)) {
      const u64 experts = tables.await(source, 1 + entry / kLineEntries, line);
      const u32 expert = (u32)(experts >> entry % kLineEntries * 16 & 0xffff) - a.comm.rank * a.localExperts;
      if (expert < a.localExperts) local = expert;
    }
    at.next(s);
    if (at.isAny()) line = tables.look(at.source, 1 + (at.first(s) + lane) / kLineEntries);
    // Of so many entries this block has the first.
    const u32 phase = (first + period - blockIdx.x * a.topK) % period;
    if (phase < a.topK || phase + 31 >= period) {
      const u32 ahead = __popc(__match_any_sync(~0u, local) & ((1u << lane) - 1));
      const u32 token = entry / a.topK, cell = token / gridDim.x * a.topK + entry % a.topK;
      // A cell out of range is of a table that changed after a wait had been given up.
      if (local != kNobody && token % gridDim.x == blockIdx.x && cell < ofSource)
        placesOf(a, s)[source * ofSource + cell] = {local | warp << 16, counts[local] + ahead};
      __syncwarp();
    }
    if (local != kNobody) {
      atomicAdd(counts + local, 1u);
      if (local % gridDim.x == blockIdx.x) atomicAdd((int*)a.counts + local * a.comm.nRanks + source, 1);
    }
    __syncwarp();
  }
}

// Finds each expert's first row, and the rows in front of each warp's.
__device__ __forceinline__ void addCounts(const nccl4jExpertArguments& a, DispatchShared& s) {
  constexpr u32 kFlights = 8;
  const u32 warps = counters(a), padded = (a.localExperts + 31) / 32 * 32;
#pragma unroll 1
  for (u32 e = threadIdx.x; e < padded; e += blockDim.x) {
    u32 sum = 0;
#pragma unroll 1
    for (u32 w = 0; e < a.localExperts && w < warps; w += kFlights) {
      u32 its[kFlights];
#pragma unroll
      for (u32 i = 0; i < kFlights; i++) its[i] = w + i < warps ? before(a, s, w + i)[e] : 0;
#pragma unroll
      for (u32 i = 0; i < kFlights; i++) {
        if (w + i < warps) before(a, s, w + i)[e] = sum;
        sum += its[i];
      }
    }
    const u32 upTo = sumUpTo(sum);
    s.first[e] = upTo - sum;
    if (threadIdx.x % 32 == 31) s.bases[e / 32] = upTo;
  }
}

// Finds the places of this block's entries, and each expert's first row. The numbers of tokens are known.
__device__ __forceinline__ void countMany(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const u32 its = lane < (u32)a.comm.nRanks ? s.counts[lane] * a.topK : 0;
  const u32 upTo = sumUpTo((its + 31) / 32 * 32);
  if (warp == 0 && lane < (u32)a.comm.nRanks) s.entries[lane + 1] = upTo;
  if (warp < counters(a))
    for (u32 i = lane; i < a.localExperts; i += 32) before(a, s, warp)[i] = 0;
  for (u32 i = threadIdx.x; i < a.localExperts * a.comm.nRanks; i += blockDim.x)
    if (i / a.comm.nRanks % gridDim.x == blockIdx.x) ((int*)a.counts)[i] = 0;
  __syncthreads();
  const Entries entries(a, s, warp);
  uint4 line{};
  if (entries.isAny()) line = tables.look(entries.source, 1 + (entries.first(s) + lane) / kLineEntries);
  countEntries(a, tables, s, entries, line);
  __syncthreads();
  addCounts(a, s);
  __syncthreads();
}

// Chooses the batches of combine: one if a block has few tokens. All threads, before a barrier.
__device__ __forceinline__ void chooseBatches(const nccl4jExpertArguments& a, DispatchShared& s, bool few) {
  if (threadIdx.x != 0) return;
  u32 most = 0;
#pragma unroll 1
  for (int source = 0; source < a.comm.nRanks; source++) most = max(most, s.counts[source]);
  const u32 tokens = max(1u, (most + gridDim.x - 1) / gridDim.x);
  const bool one = few || tokens < NCCL4J_EXPERT_BATCHES;
  s.batchTokens = one ? tokens : (tokens + NCCL4J_EXPERT_BATCHES - 1) / NCCL4J_EXPERT_BATCHES;
  s.batches = one ? 1 : NCCL4J_EXPERT_BATCHES;
}

// The rows of entries whose places are known. All lanes of a warp.
class Rows {
 public:
  __device__ __forceinline__ Rows(const nccl4jExpertArguments& a, DispatchShared& s) : a_(a), s_(s) {
    const u32 lane = threadIdx.x % 32, its = lane < (a.localExperts + 31) / 32 ? s.bases[lane] : 0;
    const u32 upTo = sumUpTo(its);
    base_ = upTo - its;
    all_ = __shfl_sync(~0u, upTo, 31);
  }

  // The row of an entry, or kNobody.
  __device__ __forceinline__ u32 row(nccl4jExpertPlace place) const {
    const u32 local = place.origin % 65536;
    const u32 base = __shfl_sync(~0u, base_, local / 32 % 32);
    if (place.origin == kNobody) return kNobody;
    const u32 row = base + s_.first[local] + before(a_, s_, place.origin / 65536)[local] + place.ahead;
    return row < a_.rows ? row : kNobody;
  }

  // The first row of an expert, 32 of them a warp; behind the last all rows.
  __device__ __forceinline__ void storeOffsets() const {
    int* offsets = (int*)a_.offsets;
    for (u32 e = threadIdx.x / 32 * 32; e < a_.localExperts; e += blockDim.x) {
      const u32 base = __shfl_sync(~0u, base_, e / 32), mine = e + threadIdx.x % 32;
      if (mine < a_.localExperts) offsets[mine] = base + s_.first[mine];
    }
    if (threadIdx.x == 0) offsets[a_.localExperts] = all_;
  }

  // Notes and lists the rows of this block's entries, one batch behind the other. All threads.
  __device__ __forceinline__ void keep() const {
    const u32 ofSource = placesOfSource(a_), ofBatch = s_.batchTokens * a_.topK, nRanks = a_.comm.nRanks;
#pragma unroll 1
    for (u32 batch = 0; batch < s_.batches; batch++) {
#pragma unroll 1
      for (u32 first = threadIdx.x / 32 * 32; first < ofBatch * nRanks; first += blockDim.x) {
        const u32 i = first + threadIdx.x % 32, ofIts = batch * ofBatch + i % ofBatch;
        const bool any = i < ofBatch * nRanks && ofIts < ofSource;
        const u32 cell = any ? inTurn(a_, i / ofBatch) * ofSource + ofIts : 0;
        const u32 mine = row(any ? placesOf(a_, s_)[cell] : nccl4jExpertPlace{kNobody, 0});
        if (mine != kNobody) keepRow(a_, s_, cell, mine);
      }
      __syncthreads();
      if (threadIdx.x == 0) s_.listedOf[batch] = s_.listed;
      __syncthreads();
    }
  }

 private:
  const nccl4jExpertArguments& a_;
  DispatchShared& s_;
  u32 base_, all_;
};

// Finds the rows of this block's entries. All threads.
__device__ __forceinline__ void countRows(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  if (__syncthreads_and(keepKeys(a, tables, s))) {
    chooseBatches(a, s, true);
    findRows(a, s);
    __syncthreads();
    if (threadIdx.x == 0) s.listedOf[0] = s.listed;
  } else {
    chooseBatches(a, s, false);
    countMany(a, tables, s);
    const Rows rows(a, s);
    if (blockIdx.x == 0) rows.storeOffsets();
    rows.keep();
  }
  __syncthreads();
}

}  // namespace experts
}  // namespace nccl4j
