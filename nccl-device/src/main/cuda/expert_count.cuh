// The rows of received tokens, in the order of local expert, source rank, token and k.
//
// A row is the first of its expert and source, and behind that the entry's place among its rank's entries of the
// same expert. The sender knows that place, and how many entries each expert has from it. Every block counts all of
// its rank's entries, and tells the same block of every rank: so a block looks only at lines that are its own.
//
// All of this is the work of a crew of the block's warps, each function that of all its threads.
//
// A message has lines of LL, so many for any call of an exchange: the rank's number of tokens; numbers of entries of
// the receiver's experts; places of the entries of the block's tokens, of which those that are there are sent.
#pragma once
#include "expert_lines.cuh"

namespace nccl4j {
namespace experts {

constexpr u32 kMessageSignature = 1;
constexpr u32 kPlacesHere = 2048;
constexpr u32 kLinePlaces = 2;  // of a message's line
// A place: the receiver's expert above, the entries in front below; kNobody for an entry of another rank's expert.
constexpr u32 kAheadBits = 23;
static_assert(NCCL4J_EXPERT_ENTRIES < 1 << kAheadBits && NCCL4J_EXPERT_LOCAL <= 1 << (32 - kAheadBits), "a place");

struct DispatchShared {
  u32 cells[NCCL4J_EXPERT_CELLS];       // of each expert entries of this rank; then of each source rank and local
                                        // expert its rows, and then those of the sources in front
  u32 first[NCCL4J_EXPERT_LOCAL];       // an expert's first row, from that of its 32 on
  u32 bases[NCCL4J_EXPERT_LOCAL / 32];  // rows of 32 experts
  u32 counts[NCCL4J_EXPERT_RANKS];      // tokens of each rank, kNobody before they are known
  u32 listed;
  u32 dead;                             // whether the messages did not come
  u32 rowsOf;                           // the number of the dispatch whose rows are known
  u32 batches, batchTokens;             // of combine: nccl4jExpertState
  u32 listedOf[NCCL4J_EXPERT_BATCHES];
  u32 places[kPlacesHere];              // nccl4jExpertArguments.places, if there is room
};

// The places of the entries of this block's tokens, by source rank: of this rank's the entries in front, then of all
// those received, then their rows.
__device__ __forceinline__ u32* placesOf(const nccl4jExpertArguments& a, DispatchShared& s) {
  return a.listCapacity <= kPlacesHere ? s.places : (u32*)a.places + blockIdx.x * a.listCapacity;
}

// Those of each source rank.
__device__ __forceinline__ u32 placesOfSource(const nccl4jExpertArguments& a) { return a.blockTokens * a.topK; }

// The rows of a source rank, by local expert.
__device__ __forceinline__ u32* rowsOf(const nccl4jExpertArguments& a, DispatchShared& s, u32 source) {
  return s.cells + source * a.localExperts;
}

__device__ __forceinline__ bool isExpert(const nccl4jExpertArguments& a, int expert) {
  return expert >= 0 && expert < (int)a.nExperts;
}

// Before anything is counted.
__device__ __forceinline__ void clear(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew) {
  for (u32 i = crew.thread(); i < a.listCapacity; i += crew.threads()) placesOf(a, s)[i] = kNobody;
  for (u32 i = crew.thread(); i < a.nExperts; i += crew.threads()) s.cells[i] = 0;
  if (crew.thread() < NCCL4J_EXPERT_RANKS) s.counts[crew.thread()] = kNobody;
  if (crew.thread() == 0) s.listed = s.dead = 0;
  crew.sync();
}

// The lines of a message.
struct MessageLines {
  u32 counts;   // behind the first
  u32 ofToken;  // behind those, for each token

  __device__ __forceinline__ explicit MessageLines(const nccl4jExpertArguments& a)
      : counts((a.localExperts + a.countsOfLine - 1) / a.countsOfLine),
        ofToken((a.topK + kLinePlaces - 1) / kLinePlaces) {}

  __device__ __forceinline__ u32 all(u32 tokens) const { return 1 + counts + tokens * ofToken; }
};

// The offset in the window of the message to this block from the same of a rank.
__device__ __forceinline__ u64 messageAt(const nccl4jExpertArguments& a, u64 half, int source) {
  return a.messages + ((half * a.comm.nRanks + source) * gridDim.x + blockIdx.x) * a.messageBytes;
}

// Counts this rank's entries of each expert, and those in front of each entry of this block's tokens.
__device__ __forceinline__ void countEntries(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew) {
  constexpr u32 kRounds = 4;  // of which a thread's entries are loaded at once
  const int* experts = (const int*)a.experts;
  const u32 entries = a.tokenCount * a.topK, threads = crew.threads();
  u32* ahead = placesOf(a, s) + a.comm.rank * placesOfSource(a);
  u32 token = blockIdx.x * a.topK;  // the first entry of this block's next token
#pragma unroll 1
  for (u32 first = 0; first < entries; first += kRounds * threads) {
    int x[kRounds];
#pragma unroll
    for (u32 f = 0; f < kRounds; f++) {
      const u32 mine = first + f * threads + crew.thread();
      x[f] = mine < entries ? experts[mine] : -1;
    }
#pragma unroll
    for (u32 f = 0; f < kRounds; f++) {
      const u32 begin = first + f * threads, mine = begin + crew.thread(), end = min(entries, begin + threads);
      u32 counted = begin;
#pragma unroll 1
      for (; token < end; token += gridDim.x * a.topK) {
        if (mine >= counted && mine < token && isExpert(a, x[f])) atomicAdd(s.cells + x[f], 1u);
        crew.sync();
        for (u32 k = crew.thread(); k < a.topK; k += threads) {
          const int expert = experts[token + k];
          u32 sum = isExpert(a, expert) ? s.cells[expert] : 0;
#pragma unroll 8
          for (u32 other = 0; other < k; other++) sum += experts[token + other] == expert;
          ahead[k] = sum;
        }
        crew.sync();
        ahead += a.topK;
        counted = token;
      }
      if (mine >= counted && isExpert(a, x[f])) atomicAdd(s.cells + x[f], 1u);
    }
  }
  crew.sync();
}

// The data of a line with places. False for one with an expert that does not exist: without this line no rank takes
// the rest for a dispatch.
__device__ __forceinline__ bool placesOfLine(const nccl4jExpertArguments& a, const u32* ahead, u32 to, u32 at,
                                             u32 firstK, u64& data) {
  const int* experts = (const int*)a.experts + (u64)(blockIdx.x + at * gridDim.x) * a.topK;
  bool valid = true;
  data = ~0ull;
#pragma unroll
  for (u32 h = 0; h < kLinePlaces; h++) {
    const u32 k = firstK + h;
    if (k >= a.topK) break;
    const int expert = experts[k];
    const u32 local = (u32)expert - to * a.localExperts;
    if (expert >= 0 && local < a.localExperts)
      data ^= (u64)~(local << kAheadBits | ahead[at * a.topK + k]) << 32 * h;
    else if (expert != -1 && !isExpert(a, expert))
      valid = false;
  }
  return valid;
}

// Counts, and sends the messages.
__device__ __forceinline__ void sendMessages(const nccl4jExpertArguments& a, DispatchShared& s, u64 half,
                                             LineFlags flags, const Crew& crew) {
  countEntries(a, s, crew);
  const MessageLines lines(a);
  const u32 each = lines.all(tokensOfBlock(a.tokenCount)), bits = 64 / a.countsOfLine;
  const u32* ahead = placesOf(a, s) + a.comm.rank * placesOfSource(a);
  const u64 at = messageAt(a, half, a.comm.rank);
  for (u32 i = crew.thread(); i < each * a.comm.nRanks; i += crew.threads()) {
    const u32 to = inTurn(a, i / each), line = i % each;
    u64 data = 0;
    if (line == 0) {
      data = a.tokenCount;
    } else if (line <= lines.counts) {
      const u32 local = (line - 1) * a.countsOfLine;
      for (u32 h = 0; h < a.countsOfLine && local + h < a.localExperts; h++)
        data |= (u64)s.cells[to * a.localExperts + local + h] << h * bits;
    } else {
      const u32 place = line - 1 - lines.counts;
      if (!placesOfLine(a, ahead, to, place / lines.ofToken, place % lines.ofToken * kLinePlaces, data)) continue;
    }
    storeLine(peer(a, to, at + 16ull * line), data, flags);
  }
  crew.sync();
}

// Keeps the experts and the weights of this block's tokens for combine, and reports experts that do not exist.
__device__ __forceinline__ void keepEntries(const nccl4jExpertArguments& a, const Crew& crew) {
  const u32 entries = tokensOfBlock(a.tokenCount) * a.topK;
  for (u32 i = crew.thread(); i < entries; i += crew.threads()) {
    const u32 entry = (blockIdx.x + i / a.topK * gridDim.x) * a.topK + i % a.topK;
    const int expert = ((const int*)a.experts)[entry];
    if (expert != -1 && !isExpert(a, expert))
      fail((nccl4jControl*)a.comm.control, a.comm.rank, 0, kInvalidExpert, (u64)entry << 32 | (u32)expert);
    ((int*)a.keptExperts)[entry] = expert;
    ((float*)a.keptWeights)[entry] = ((const float*)a.weights)[entry];
  }
  if (blockIdx.x == 0 && crew.thread() == 0) *(u32*)a.keptCount = a.tokenCount;
}

// Reads the messages to this block.
class Messages {
 public:
  __device__ __forceinline__ Messages(const nccl4jExpertArguments& a, u64 half, LineFlags flags)
      : a_(a), half_(half), flags_(flags), patience_(a.comm) {}

  // Waits for a line while wanted(). False if it is not there.
  template <class F>
  __device__ __forceinline__ bool await(u32 source, u32 line, u64& data, F wanted) {
    const char* place = own(a_, messageAt(a_, half_, source) + 16ull * line);
    u32 looks = 0;
    while (!dead_) {
      const uint4 v = loadLine(place);
      data = (u64)v.z << 32 | v.x;
      if (flags_.match(v)) return true;
      if (!wanted()) return false;
      if (++looks > kEagerLooks) __nanosleep(kPause);
      dead_ = patience_.exhausted(source, blockIdx.x, 0, flags_.step);
    }
    return false;
  }

  __device__ __forceinline__ bool dead() const { return dead_; }

 private:
  const nccl4jExpertArguments& a_;
  const u64 half_;
  const LineFlags flags_;
  Patience patience_;
  bool dead_ = false;
};

// Waits for the messages of all ranks.
__device__ __forceinline__ void takeMessages(const nccl4jExpertArguments& a, DispatchShared& s, u64 half,
                                             LineFlags flags, const Crew& crew) {
  const MessageLines lines(a);
  const u32 lane = threadIdx.x % 32, bits = 64 / a.countsOfLine;
  const u32 each = lines.all(a.blockTokens) - 1, all = each * a.comm.nRanks;
  volatile u32* counts = s.counts;
  Messages messages(a, half, flags);
#pragma unroll 1
  for (u32 first = crew.warp() * 32; first < 32 + all; first += crew.threads()) {
    // A warp with nothing else has the lines with the numbers of tokens: others wait until these are known.
    const bool heads = first == 0;
    const u32 i = heads ? lane : first - 32 + lane;
    if (i >= (heads ? a.comm.nRanks : all)) continue;
    const u32 source = heads ? i : i / each, line = heads ? 0 : 1 + i % each;
    const u32 place = line - 1 - lines.counts, at = place / lines.ofToken;
    u64 data;
    const bool there = messages.await(source, line, data, [&] {
      if (line <= lines.counts) return true;
      const u32 known = counts[source];
      return known == kNobody || at < tokensOfBlock(known);
    });
    if (!there) continue;
    if (heads) {
      counts[source] = min((u32)data, a.maxTokens);
    } else if (line <= lines.counts) {
      const u32 local = (line - 1) * a.countsOfLine;
      for (u32 h = 0; h < a.countsOfLine && local + h < a.localExperts; h++)
        rowsOf(a, s, source)[local + h] = (u32)(data >> h * bits) & (u32)(~0ull >> (64 - bits));
    } else {
      const u32 k = place % lines.ofToken * kLinePlaces;
      u32* its = placesOf(a, s) + source * placesOfSource(a) + at * a.topK;
      for (u32 h = 0; h < kLinePlaces && k + h < a.topK; h++) its[k + h] = (u32)(data >> 32 * h);
    }
  }
  if (messages.dead()) s.dead = 1;
  crew.sync();
}

__device__ __forceinline__ u32 sumUpTo(u32 x) {
#pragma unroll
  for (u32 distance = 1; distance < 32; distance *= 2) {
    const u32 other = __shfl_up_sync(~0u, x, distance);
    if (threadIdx.x % 32 >= distance) x += other;
  }
  return x;
}

// Finds each expert's first row, and the rows in front of each source's. Each block stores the counts of some
// experts.
__device__ __forceinline__ void addCounts(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew) {
  constexpr u32 kFlights = 8;
  const u32 nRanks = a.comm.nRanks, padded = (a.localExperts + 31) / 32 * 32;
#pragma unroll 1
  for (u32 e = crew.thread(); e < padded; e += crew.threads()) {
    const bool stores = e % gridDim.x == blockIdx.x;
    u32 sum = 0;
#pragma unroll 1
    for (u32 r = 0; e < a.localExperts && r < nRanks; r += kFlights) {
      u32 its[kFlights];
#pragma unroll
      for (u32 i = 0; i < kFlights; i++) its[i] = r + i < nRanks ? rowsOf(a, s, r + i)[e] : 0;
#pragma unroll
      for (u32 i = 0; i < kFlights; i++) {
        if (r + i >= nRanks) break;
        if (stores) ((int*)a.counts)[e * nRanks + r + i] = its[i];
        rowsOf(a, s, r + i)[e] = sum;
        sum += its[i];
      }
    }
    const u32 upTo = sumUpTo(sum);
    s.first[e] = upTo - sum;
    if (threadIdx.x % 32 == 31) s.bases[e / 32] = upTo;
  }
}

// Chooses the batches of combine: one if a block has few tokens. Before a barrier.
__device__ __forceinline__ void chooseBatches(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew) {
  if (crew.thread() != 0) return;
  u32 most = 0;
#pragma unroll 1
  for (int source = 0; source < a.comm.nRanks; source++) most = max(most, s.counts[source]);
  const u32 tokens = max(1u, (most + gridDim.x - 1) / gridDim.x);
  const bool one = tokens < NCCL4J_EXPERT_BATCHES;
  s.batchTokens = one ? tokens : (tokens + NCCL4J_EXPERT_BATCHES - 1) / NCCL4J_EXPERT_BATCHES;
  s.batches = one ? 1 : NCCL4J_EXPERT_BATCHES;
}

// The rows of entries whose places are known. All lanes of a warp.
class Rows {
 public:
  __device__ __forceinline__ Rows(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew)
      : a_(a), s_(s), crew_(crew) {
    const u32 lane = threadIdx.x % 32, its = lane < (a.localExperts + 31) / 32 ? s.bases[lane] : 0;
    const u32 upTo = sumUpTo(its);
    base_ = upTo - its;
    all_ = __shfl_sync(~0u, upTo, 31);
  }

  // The first row of an expert, 32 of them a warp; behind the last all rows.
  __device__ __forceinline__ void storeOffsets() const {
    int* offsets = (int*)a_.offsets;
    for (u32 e = crew_.warp() * 32; e < a_.localExperts; e += crew_.threads()) {
      const u32 base = __shfl_sync(~0u, base_, e / 32), mine = e + threadIdx.x % 32;
      if (mine < a_.localExperts) offsets[mine] = base + s_.first[mine];
    }
    if (crew_.thread() == 0) offsets[a_.localExperts] = all_;
  }

  // Notes the rows of this block's entries in their places.
  __device__ __forceinline__ void note() const {
    const u32 ofSource = placesOfSource(a_), all = ofSource * a_.comm.nRanks;
#pragma unroll 1
    for (u32 first = crew_.warp() * 32; first < all; first += crew_.threads()) {
      const u32 i = first + threadIdx.x % 32;
      const u32 place = i < all ? placesOf(a_, s_)[i] : kNobody;
      const u32 mine = row(i / ofSource, place);
      if (place != kNobody) placesOf(a_, s_)[i] = mine < a_.rows ? mine : kNobody;
    }
  }

 private:
  // The row of an entry of a source. Of any number for kNobody.
  __device__ __forceinline__ u32 row(u32 source, u32 place) const {
    const u32 local = place >> kAheadBits, base = __shfl_sync(~0u, base_, local / 32);
    if (local >= a_.localExperts) return kNobody;
    return base + s_.first[local] + rowsOf(a_, s_, source)[local] + place % (1 << kAheadBits);
  }

  const nccl4jExpertArguments& a_;
  DispatchShared& s_;
  const Crew& crew_;
  u32 base_, all_;
};

// Finds the rows of this block's entries.
__device__ __forceinline__ void findRows(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew) {
  if (s.dead) return;
  chooseBatches(a, s, crew);
  addCounts(a, s, crew);
  crew.sync();
  const Rows rows(a, s, crew);
  rows.note();
  if (blockIdx.x == 0) rows.storeOffsets();
}

// Lets the block's other warps, which wait at kRowsBarrier, go on: the rows are known, or will not be.
__device__ __forceinline__ void tellRows(DispatchShared& s, u64 number, const Crew& crew) {
  crew.sync();
  if (crew.thread() == 0) *(volatile u32*)&s.rowsOf = (u32)number;
  barrierArrive(kRowsBarrier, blockDim.x);
}

// True if a warp can go to that barrier without a wait, the same on all lanes. A wrong yes, of memory that was not
// cleared yet, makes it wait there.
__device__ __forceinline__ bool rowsKnown(DispatchShared& s, u64 number) {
  return __shfl_sync(~0u, *(volatile u32*)&s.rowsOf, 0) == (u32)number;
}

// Lists the rows of this block's entries for combine, one batch behind the other.
__device__ __forceinline__ void listRows(const nccl4jExpertArguments& a, DispatchShared& s, const Crew& crew) {
  const u32 ofSource = placesOfSource(a), ofBatch = s.batchTokens * a.topK, all = ofBatch * a.comm.nRanks;
#pragma unroll 1
  for (u32 batch = 0; batch < s.batches; batch++) {
#pragma unroll 1
    for (u32 i = crew.thread(); i < all; i += crew.threads()) {
      const u32 of = batch * ofBatch + i % ofBatch, source = inTurn(a, i / ofBatch);
      const u32 row = of < ofSource ? placesOf(a, s)[source * ofSource + of] : kNobody;
      if (row == kNobody) continue;
      const u32 token = of / a.topK * gridDim.x + blockIdx.x;
      const u32 entry = (source * a.maxTokens + token) * a.topK + of % a.topK;
      listOf(a)[atomicAdd(&s.listed, 1u)] = (u64)row << 32 | entry;
    }
    crew.sync();
    if (crew.thread() == 0) s.listedOf[batch] = s.listed;
    crew.sync();
  }
}

}  // namespace experts
}  // namespace nccl4j
