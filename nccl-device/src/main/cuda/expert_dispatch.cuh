// Dispatch. Each rank sends a token once to every rank that has one of the token's experts, and the table
// of its expert numbers to all. From the tables of all ranks, every rank computes the rows of the tokens that
// it receives, in the order of local expert, source rank, token and k, and copies them there. So data cross
// the links once, in one flight, and no counts have to be exchanged first.
//
// The staging area has two halves. A rank writes into a half again two dispatches later. By then it has
// received the flags of the dispatch between, so every other rank has ended the one before.
#pragma once
#include "expert.cuh"

namespace nccl4j {
namespace experts {

constexpr u32 kTableSignature = 1;
constexpr u32 kPiece = 256;  // tokens of a block whose targets lie in shared memory
constexpr u32 kNobody = ~0u;
constexpr uint16_t kNoLocal = 0xffff;
constexpr u32 kCached = 4096;
constexpr u32 kCells = 16 * NCCL4J_EXPERT_LOCAL;  // of experts and warps that count rows

struct DispatchShared {
  u32 targets[kPiece];                       // bits of ranks
  u32 before[kCells];                        // rows of an expert in front of a warp's entries
  u32 first[NCCL4J_EXPERT_LOCAL];            // an expert's first row
  u32 entries[NCCL4J_EXPERT_RANKS + 1];      // entries of the ranks in front, each padded to whole warps
  u32 counts[NCCL4J_EXPERT_RANKS];           // tokens of each rank
  u32 listed;
  uint16_t locals[kCached];                  // local experts of entries, as far as there is room
};

__device__ __forceinline__ int loadExpert(const nccl4jExpertArguments& a, u32 entry) {
  return ((const int*)a.experts)[entry];
}

// Sends the number of tokens and the expert numbers, and keeps these and the weights for combine. False if this
// thread has found an expert that does not exist.
__device__ __forceinline__ bool sendTable(const nccl4jExpertArguments& a, u64 half, LineFlags flags) {
  const u32 entries = a.tokenCount * a.topK, lines = 1 + (entries + 1) / 2;
  const u32 warps = blockDim.x / 32 * gridDim.x;
  // Neighbouring warps lie in different blocks, so that a small table is sent by many.
  const u32 warp = threadIdx.x / 32 * gridDim.x + blockIdx.x;
  bool valid = true;
  for (u32 line = warp * 32 + threadIdx.x % 32; line < lines; line += warps * 32) {
    u32 words[2] = {a.tokenCount, 0};
    for (u32 h = 0; line > 0 && h < 2; h++) {
      const u32 entry = (line - 1) * 2 + h;
      words[h] = kNobody;
      if (entry >= entries) continue;
      const int expert = loadExpert(a, entry);
      if (expert >= (int)a.nExperts || expert < -1) {
        valid = false;
        fail((nccl4jControl*)a.comm.control, a.comm.rank, 0, kInvalidExpert, (u64)entry << 32 | (u32)expert);
      } else {
        words[h] = (u32)expert;
      }
      ((int*)a.keptExperts)[entry] = (int)words[h];
      ((float*)a.keptWeights)[entry] = ((const float*)a.weights)[entry];
    }
    const u64 at = a.tables + (half * a.comm.nRanks + a.comm.rank) * a.tableBytes + 16ull * line;
    for (int d = 0; d < a.comm.nRanks; d++) {
      const int to = a.comm.rank + d < a.comm.nRanks ? a.comm.rank + d : a.comm.rank + d - a.comm.nRanks;
      storeLine(peer(a, to, at), (u64)words[1] << 32 | words[0], flags);
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *(u32*)a.keptCount = a.tokenCount;
  return valid;
}

// The ranks that have experts of a token.
__device__ __forceinline__ u32 targetsOf(const nccl4jExpertArguments& a, u32 token) {
  u32 targets = 0;
  for (u32 k = 0; k < a.topK; k++) {
    const int expert = loadExpert(a, token * a.topK + k);
    if (expert >= 0 && expert < (int)a.nExperts) targets |= 1u << (u32)expert / a.localExperts;
  }
  return targets;
}

__device__ __forceinline__ u64 stagedAt(const nccl4jExpertArguments& a, u64 half, int source, u32 token) {
  return a.tokens + ((half * a.comm.nRanks + source) * a.maxTokens + token) * a.stagedRow;
}

template <class F>
__device__ __forceinline__ void forEach(u32 targets, F f) {
  for (u32 left = targets; left != 0; left &= left - 1) f(__ffs(left) - 1);
}

// Sends tokens as they are: 16 bytes at a time.
__device__ __forceinline__ void sendSame(const nccl4jExpertArguments& a, u64 half, const u32* targets,
                                         u32 first, u32 tokens) {
  constexpr u32 kFlights = 4;
  const u32 packs = a.rowBytes / 16, all = tokens * packs;
  for (u32 i = threadIdx.x; i < all; i += kFlights * blockDim.x) {
    Pack x[kFlights];
    u32 token[kFlights], at[kFlights];
#pragma unroll
    for (u32 f = 0; f < kFlights; f++) {
      const u32 item = i + f * blockDim.x;
      token[f] = item / packs;
      at[f] = item % packs * 16;
      if (item < all && targets[token[f]] != 0)
        x[f] = loadData((const char*)a.send + (u64)(first + token[f] * gridDim.x) * a.rowBytes + at[f]);
    }
#pragma unroll
    for (u32 f = 0; f < kFlights; f++) {
      if (i + f * blockDim.x >= all) continue;
      const u64 to = stagedAt(a, half, a.comm.rank, first + token[f] * gridDim.x) + at[f];
      forEach(targets[token[f]], [&](int rank) { storeData(peer(a, rank, to), x[f]); });
    }
  }
}

// Sends tokens as fp8 (e4m3) with a scale for each group of elements. A thread has eight elements, and 16
// threads have a group. All threads of a group take part in its exchanges, or none.
template <class T>
__device__ __forceinline__ void sendFp8(const nccl4jExpertArguments& a, u64 half, const u32* targets,
                                        u32 first, u32 tokens) {
  constexpr u32 kMine = 8;
  constexpr u32 kPacks = kMine * sizeof(T) / 16;
  constexpr float kMost = 448.0f;
  constexpr float kLeast = 0x1p-100f;  // of less the factor would be infinite
  const u32 parts = a.hidden / kMine, all = tokens * parts;
  const u32 group = 0xffffu << (threadIdx.x & 16);
  for (u32 i = threadIdx.x; i < all; i += blockDim.x) {
    const u32 token = i / parts, part = i % parts, row = first + token * gridDim.x;
    if (targets[token] == 0) continue;
    float v[kMine];
    float most = 0;
    for (u32 p = 0; p < kPacks; p++) {
      Elements<T> x;
      x.pack = loadData((const char*)a.send + (u64)row * a.rowBytes + (part * kPacks + p) * 16);
      for (u32 e = 0; e < 16 / sizeof(T); e++) {
        const float y = (float)x.at[e];
        v[p * (16 / sizeof(T)) + e] = y;
        most = fmaxf(most, fabsf(y));
      }
    }
    for (u32 distance = 8; distance > 0; distance /= 2)
      most = fmaxf(most, __shfl_xor_sync(group, most, distance));
    const float greatest = most == 0 ? kMost : fmaxf(most, kLeast);
    const float scale = greatest / kMost, factor = kMost / greatest;
    u64 bytes = 0;
    for (u32 e = 0; e < kMine; e++)
      bytes |= (u64)__nv_cvt_float_to_fp8(v[e] * factor, __NV_SATFINITE, __NV_E4M3) << 8 * e;
    const u64 to = stagedAt(a, half, a.comm.rank, row);
    forEach(targets[token], [&](int rank) {
      *(u64*)peer(a, rank, to + part * kMine) = bytes;
      if (part % 16 == 0) *(float*)peer(a, rank, to + a.wireRow + part / 16 * 4) = scale;
    });
  }
}

// Sends this block's tokens.
template <class T, Wire WIRE>
__device__ __forceinline__ void sendTokens(const nccl4jExpertArguments& a, u64 half, DispatchShared& s) {
  for (u32 first = blockIdx.x; first < a.tokenCount; first += kPiece * gridDim.x) {
    const u32 tokens = min(kPiece, (a.tokenCount - first + gridDim.x - 1) / gridDim.x);
    __syncthreads();
    for (u32 i = threadIdx.x; i < tokens; i += blockDim.x) s.targets[i] = targetsOf(a, first + i * gridDim.x);
    __syncthreads();
    if (WIRE == Wire::FP8)
      sendFp8<T>(a, half, s.targets, first, tokens);
    else
      sendSame(a, half, s.targets, first, tokens);
  }
}

// Reads the lines of the ranks' tables.
class Tables {
 public:
  __device__ Tables(const nccl4jExpertArguments& a, u64 half, LineFlags flags)
      : a_(a), at_(a.tables + half * a.comm.nRanks * a.tableBytes), flags_(flags), patience_(a.comm) {}

  __device__ __forceinline__ u64 line(int source, u32 line) {
    const char* place = own(a_, at_ + source * a_.tableBytes + 16ull * line);
    uint4 v = loadLine(place);
    while (!flags_.match(v) && !dead_) {
      dead_ = patience_.exhausted(source, blockIdx.x, 0, flags_.step);
      v = loadLine(place);
    }
    return (u64)v.z << 32 | v.x;
  }

  __device__ __forceinline__ u32 count(int source) { return (u32)line(source, 0); }

  __device__ __forceinline__ u32 expert(int source, u32 entry) {
    return (u32)(line(source, 1 + entry / 2) >> (entry % 2 * 32));
  }

 private:
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

// Calls f(source, entry, local expert or kNobody) for this warp's entries, 32 of one source at a time. The
// second time most are known.
template <bool AGAIN, class F>
__device__ __forceinline__ void forEntries(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s,
                                           F f) {
  const u32 warps = counters(a), warp = threadIdx.x / 32;
  if (warp >= warps) return;
  const u32 rounds = s.entries[a.comm.nRanks] / 32, each = (rounds + warps - 1) / warps;
  const u32 mine = a.comm.rank * a.localExperts;
  int source = 0;
  for (u32 round = warp * each; round < min(rounds, (warp + 1) * each); round++) {
    while (round * 32 >= s.entries[source + 1]) source++;
    const u32 entry = round * 32 + threadIdx.x % 32 - s.entries[source];
    const u32 cell = round * 32 + threadIdx.x % 32;
    u32 local = kNobody;
    if (AGAIN && cell < kCached) {
      local = s.locals[cell] == kNoLocal ? kNobody : s.locals[cell];
    } else if (entry < s.counts[source] * a.topK) {
      const u32 expert = tables.expert(source, entry) - mine;
      if (expert < a.localExperts) local = expert;
    }
    if (!AGAIN && cell < kCached) s.locals[cell] = local == kNobody ? kNoLocal : (uint16_t)local;
    f(source, entry, local);
  }
}

// Counts the entries of each local expert in front of each warp's, and finds each expert's first row.
__device__ __forceinline__ void countRows(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  const u32 warps = counters(a), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int* counts = (int*)a.counts;
  for (u32 i = threadIdx.x; i < warps * a.localExperts; i += blockDim.x) s.before[i] = 0;
  if (blockIdx.x == 0)
    for (u32 i = threadIdx.x; i < a.localExperts * a.comm.nRanks; i += blockDim.x) counts[i] = 0;
  if (threadIdx.x < (u32)a.comm.nRanks) s.counts[threadIdx.x] = min(tables.count(threadIdx.x), a.maxTokens);
  __syncthreads();
  if (threadIdx.x == 0) {
    u32 sum = 0;
    for (int source = 0; source < a.comm.nRanks; source++) {
      s.entries[source] = sum;
      sum += (s.counts[source] * a.topK + 31) / 32 * 32;
    }
    s.entries[a.comm.nRanks] = sum;
    s.listed = 0;
  }
  __syncthreads();
  forEntries<false>(a, tables, s, [&](int source, u32, u32 local) {
    const u32 same = __match_any_sync(~0u, local);
    if (local != kNobody && lane == (u32)__ffs(same) - 1) {
      before(a, s, warp)[local] += __popc(same);
      if (blockIdx.x == 0) atomicAdd(counts + local * a.comm.nRanks + source, __popc(same));
    }
    __syncwarp();
  });
  __syncthreads();
  for (u32 e = threadIdx.x; e < a.localExperts; e += blockDim.x) {
    u32 sum = 0;
    for (u32 w = 0; w < warps; w++) {
      const u32 its = before(a, s, w)[e];
      before(a, s, w)[e] = sum;
      sum += its;
    }
    s.first[e] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    u32 sum = 0;
    for (u32 begin = 0; begin < a.localExperts; begin += 32) {
      const u32 its = begin + lane < a.localExperts ? s.first[begin + lane] : 0;
      u32 upTo = its;
      for (u32 distance = 1; distance < 32; distance *= 2) {
        const u32 other = __shfl_up_sync(~0u, upTo, distance);
        if (lane >= distance) upTo += other;
      }
      if (begin + lane < a.localExperts) {
        s.first[begin + lane] = sum + upTo - its;
        if (blockIdx.x == 0) ((int*)a.offsets)[begin + lane] = sum + upTo - its;
      }
      sum += __shfl_sync(~0u, upTo, 31);
    }
    if (blockIdx.x == 0 && lane == 0) ((int*)a.offsets)[a.localExperts] = sum;
  }
  __syncthreads();
}

// Lists this block's rows with the entries they are of.
__device__ __forceinline__ void listRows(const nccl4jExpertArguments& a, Tables& tables, DispatchShared& s) {
  const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  u64* rows = list(a);
  forEntries<true>(a, tables, s, [&](int source, u32 entry, u32 local) {
    const u32 same = __match_any_sync(~0u, local);
    const u32 ahead = __popc(same & ((1u << lane) - 1));
    const u32 row = local == kNobody ? 0 : s.first[local] + before(a, s, warp)[local] + ahead;
    __syncwarp();
    if (local != kNobody && ahead == 0) before(a, s, warp)[local] += __popc(same);
    __syncwarp();
    // A row out of range is of a table that changed after a wait had been given up.
    if (local == kNobody || entry / a.topK % gridDim.x != blockIdx.x || row >= a.rows) return;
    const u32 at = atomicAdd(&s.listed, 1u);
    if (at < a.listCapacity)
      rows[at] = (u64)row << 32 | ((u32)source * a.maxTokens * a.topK + entry);
  });
  __syncthreads();
}

// Copies this block's rows from the staging area.
template <Wire WIRE>
__device__ __forceinline__ void takeRows(const nccl4jExpertArguments& a, u64 half, u32 listed) {
  const u32 ofSource = a.maxTokens * a.topK;
  forRows(list(a), listed, [&](u64 item, Share share) {
    const u32 entry = (u32)item;
    const u64 row = item >> 32;
    const char* from = own(a, stagedAt(a, half, entry / ofSource, entry % ofSource / a.topK));
    copyRow((char*)a.received + row * a.wireRow, from, a.wireRow, share);
    if (WIRE == Wire::FP8) {
      const u32 groups = a.hidden / NCCL4J_EXPERT_GROUP;
      for (u32 g = share.first(); g < groups; g += share.step())
        ((float*)a.scales)[row * groups + g] = __ldcv((const float*)(from + a.wireRow) + g);
    }
    return true;
  });
}

template <class T, Wire WIRE>
__device__ __forceinline__ void dispatch(const nccl4jExpertArguments& a) {
  __shared__ DispatchShared s;
  awaitPredecessor();
  admitSuccessor();
  const u64 number = state(a)->dispatches + 1, half = number & 1;
  const LineFlags flags((u32)number, kTableSignature);
  if (__syncthreads_or(!sendTable(a, half, flags))) return;  // no rank takes this for a dispatch
  sendTokens<T, WIRE>(a, half, s);
  tellAll(a, a.dispatchFlags, number);
  Tables tables(a, half, flags);
  countRows(a, tables, s);
  listRows(a, tables, s);
  const u32 listed = min((u64)s.listed, (u64)a.listCapacity);
  awaitAll(a, a.dispatchFlags, number);
  takeRows<WIRE>(a, half, listed);
  __syncthreads();
  if (threadIdx.x == 0) {
    state(a)->dispatches = number;
    state(a)->kind = EXPERT_DISPATCH;
    state(a)->listed = listed;
  }
}

}  // namespace experts
}  // namespace nccl4j
