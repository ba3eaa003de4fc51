// Dispatch. Each rank sends a token once to every rank that has one of the token's experts, and the table
// of its expert numbers to all. From the tables of all ranks, every rank computes the rows of the tokens that
// it receives, in the order of local expert, source rank, token and k. It takes a token from the staging area
// once, and stores it to all of its rows. So data cross the links once, in one flight, no counts have to be
// exchanged first, and no rank waits for more than the lines that it takes.
//
// The staging area has two halves. A rank writes into a half again two dispatches later. By then it has
// received the tables of the dispatch between, which the other ranks sent after the one before.
#pragma once
#include "expert_lines.cuh"

namespace nccl4j {
namespace experts {

constexpr u32 kTableSignature = 1;
constexpr u32 kPlacesHere = 1024;
constexpr u32 kCells = 16 * NCCL4J_EXPERT_LOCAL;  // of experts and warps that count rows

struct DispatchShared {
  u32 before[kCells];                      // rows of an expert that a warp counts, then those of the warps in front
  u32 first[NCCL4J_EXPERT_LOCAL];          // an expert's first row, from that of its 32 on
  u32 bases[NCCL4J_EXPERT_LOCAL / 32];     // rows of 32 experts
  u32 entries[NCCL4J_EXPERT_RANKS + 1];    // entries of the ranks in front, each padded to whole warps
  u32 counts[NCCL4J_EXPERT_RANKS];         // tokens of each rank
  u32 listed;
  nccl4jExpertPlace places[kPlacesHere];   // nccl4jExpertArguments.places, if there is room
};

// The places of the entries of this block's tokens, by source rank.
__device__ __forceinline__ nccl4jExpertPlace* placesOf(const nccl4jExpertArguments& a, DispatchShared& s) {
  return a.listCapacity <= kPlacesHere ? s.places
                                       : (nccl4jExpertPlace*)a.places + blockIdx.x * a.listCapacity;
}

// Sends the number of tokens and the expert numbers, and keeps these and the weights for combine. Without the
// line of an expert that does not exist: no rank takes this for a dispatch.
__device__ __forceinline__ void sendTable(const nccl4jExpertArguments& a, u64 half, LineFlags flags) {
  const u32 entries = a.tokenCount * a.topK, lines = 1 + (entries + 1) / 2;
  const u32 each = (lines + gridDim.x - 1) / gridDim.x, end = min(lines, (blockIdx.x + 1) * each);
  // All blocks send some, by their last warps, while the first load tokens: lines that come late would wait for
  // tokens on the links.
  const u32 thread = (blockDim.x / 32 - 1 - threadIdx.x / 32) * 32 + threadIdx.x % 32;
  for (u32 line = blockIdx.x * each + thread; line < end; line += blockDim.x) {
    u32 words[2] = {a.tokenCount, 0};
    bool valid = true;
    for (u32 h = 0; line > 0 && h < 2; h++) {
      const u32 entry = (line - 1) * 2 + h;
      words[h] = kNobody;
      if (entry >= entries) continue;
      const int expert = ((const int*)a.experts)[entry];
      if (expert >= (int)a.nExperts || expert < -1) {
        valid = false;
        fail((nccl4jControl*)a.comm.control, a.comm.rank, 0, kInvalidExpert, (u64)entry << 32 | (u32)expert);
      } else {
        words[h] = (u32)expert;
      }
    }
    const u64 at = a.tables + (half * a.comm.nRanks + a.comm.rank) * a.tableBytes + 16ull * line;
    for (int d = 0; valid && d < a.comm.nRanks; d++) {
      const int to = a.comm.rank + d < a.comm.nRanks ? a.comm.rank + d : a.comm.rank + d - a.comm.nRanks;
      storeLine(peer(a, to, at), (u64)words[1] << 32 | words[0], flags);
    }
    for (u32 h = 0; line > 0 && h < 2; h++) {
      const u32 entry = (line - 1) * 2 + h;
      if (entry >= entries) continue;
      ((int*)a.keptExperts)[entry] = (int)words[h];
      ((float*)a.keptWeights)[entry] = ((const float*)a.weights)[entry];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *(u32*)a.keptCount = a.tokenCount;
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
  bool dead_ = false;
};

// Warps that count rows: as many as there is room for the counts of.
__device__ __forceinline__ u32 counters(const nccl4jExpertArguments& a) {
  return min(blockDim.x / 32, kCells / a.localExperts);
}

// The counts of a warp, by local expert.
__device__ __forceinline__ u32* before(const nccl4jExpertArguments& a, DispatchShared& s, u32 warp) {
  return s.before + warp * a.localExperts;
}

__device__ __forceinline__ u32 sumUpTo(u32 x) {
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 other = __shfl_up_sync(~0u, x, distance);
    if (threadIdx.x % 32 >= distance) x += other;
  }
  return x;
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
  const u32 ofSource = a.listCapacity / a.comm.nRanks;
  u32* counts = before(a, s, warp);
#pragma unroll 1
  while (at.isAny()) {
    const int source = at.source;
    const u32 first = at.first(s), entry = first + lane;
    u32 local = kNobody;
    if (at.has(a, s, entry)) {
      const u64 pair = tables.await(source, 1 + entry / 2, line);
      const u32 expert = (u32)(pair >> entry % 2 * 32) - a.comm.rank * a.localExperts;
      if (expert < a.localExperts) local = expert;
    }
    at.next(s);
    if (at.isAny()) line = tables.look(at.source, 1 + (at.first(s) + lane) / 2);
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

// Finds the places of this block's entries, and each expert's first row.
__device__ __forceinline__ void countRows(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // Every warp finds the same numbers.
  const u32 count = lane < (u32)a.comm.nRanks ? min(tables.count(lane), a.maxTokens) : 0;
  const u32 upTo = sumUpTo((count * a.topK + 31) / 32 * 32);
  if (lane < (u32)a.comm.nRanks) {
    s.counts[lane] = count;
    s.entries[lane + 1] = upTo;
  }
  if (lane == 0) s.entries[0] = 0;
  __syncwarp();
  const Entries entries(a, s, warp);
  uint4 line{};
  if (entries.isAny()) line = tables.look(entries.source, 1 + (entries.first(s) + lane) / 2);
  if (warp < counters(a))
    for (u32 i = lane; i < a.localExperts; i += 32) before(a, s, warp)[i] = 0;
  for (u32 i = threadIdx.x; i < a.listCapacity; i += blockDim.x) placesOf(a, s)[i] = {kNobody, 0};
  for (u32 i = threadIdx.x; i < a.localExperts * a.comm.nRanks; i += blockDim.x)
    if (i / a.comm.nRanks % gridDim.x == blockIdx.x) ((int*)a.counts)[i] = 0;
  if (threadIdx.x == 0) s.listed = 0;
  __syncthreads();
  countEntries(a, tables, s, entries, line);
  __syncthreads();
  addCounts(a, s);
  __syncthreads();
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

  // Lists this block's rows with the entries they are of, for combine.
  __device__ __forceinline__ void list() const {
    const u32 ofSource = a_.listCapacity / a_.comm.nRanks;
    for (u32 first = threadIdx.x / 32 * 32; first < a_.listCapacity; first += blockDim.x) {
      const u32 i = first + threadIdx.x % 32;
      const u32 mine = row(i < a_.listCapacity ? placesOf(a_, s_)[i] : nccl4jExpertPlace{kNobody, 0});
      if (mine == kNobody) continue;
      const u32 token = i % ofSource / a_.topK * gridDim.x + blockIdx.x;
      const u32 entry = (i / ofSource * a_.maxTokens + token) * a_.topK + i % ofSource % a_.topK;
      listOf(a_)[atomicAdd(&s_.listed, 1u)] = (u64)mine << 32 | entry;
    }
  }

 private:
  const nccl4jExpertArguments& a_;
  DispatchShared& s_;
  u32 base_, all_;
};

// Takes this block's tokens from the staging area, its own rank's first.
template <Wire WIRE>
__device__ __forceinline__ void takeTokens(const nccl4jExpertArguments& a, u64 half, u64 number,
                                           DispatchShared& s, const Rows& rows) {
  const u32 quads = quadsOf(a.wireRow / 16), warps = blockDim.x / 32;
  u32 tokens = 0;
#pragma unroll 1
  for (int source = 0; source < a.comm.nRanks; source++) tokens += tokensOfBlock(s.counts[source]);
  const u32 each = quadsAtOnce(tokens * quads), parts = (quads + each - 1) / each;
  const nccl4jExpertPlace* places = placesOf(a, s);
  Patience patience(a.comm);
  int source = a.comm.rank;
  u32 ahead = 0;  // tokens of the sources in front
#pragma unroll 1
  for (u32 item = threadIdx.x / 32; item < tokens * parts; item += warps) {
    u32 at = item / parts - ahead;
#pragma unroll 1
    for (u32 its; at >= (its = tokensOfBlock(s.counts[source])); at -= its) {
      ahead += its;
      source = source + 1 < a.comm.nRanks ? source + 1 : 0;
    }
    const u32 quad = item % parts * each;
    const nccl4jExpertPlace* its = places + (source * (u32)(a.listCapacity / a.comm.nRanks) + at * a.topK);
    auto rowsFrom = [&](u32 k) {
      k += threadIdx.x % 32;
      return rows.row(k < a.topK ? its[k] : nccl4jExpertPlace{kNobody, 0});
    };
    const char* from = own(a, stagedAt(a, half, source, blockIdx.x + at * gridDim.x));
    if (!takeQuads<WIRE>(a, from, quad, min(each, quads - quad), number, source, patience, rowsFrom)) return;
  }
}

template <class T, Wire WIRE>
__device__ __forceinline__ void dispatch(const nccl4jExpertArguments& a) {
  __shared__ DispatchShared s;
  awaitPredecessor();
  admitSuccessor();
  const u64 number = state(a)->dispatches + 1, half = number & 1;
  const LineFlags flags((u32)number, kTableSignature);
  sendTable(a, half, flags);
  sendTokens<T, WIRE>(a, half, number);
  if (!a.wholeLines) tellAll(a, a.dispatchFlags, number);
  Tables tables(a, half, flags);
  countRows(a, tables, s);
  const Rows rows(a, s);
  if (blockIdx.x == 0) rows.storeOffsets();
  rows.list();
  if (!a.wholeLines) awaitAll(a, a.dispatchFlags, number);
  takeTokens<WIRE>(a, half, number, s, rows);
  __syncthreads();
  if (threadIdx.x == 0) {
    state(a)->dispatches = number;
    state(a)->kind = EXPERT_DISPATCH;
    state(a)->listed = s.listed;
  }
}

}  // namespace experts
}  // namespace nccl4j
