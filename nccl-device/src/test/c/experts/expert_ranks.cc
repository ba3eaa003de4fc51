// Runs dispatches of expert_dispatch.cuh, each with some combines of expert_combine.cuh behind it, for all ranks on the
// host, as simt.h interleaves them, each rank as far ahead of the others as the kernels let it, and compares all that a
// rank stores with what a plain count and plain sums give.
//   expert_ranks NAME=NUMBER...
// Prints the dispatches, or the first error. With fault=1 the first rank names an expert that does not exist, with
// fault=2 its last result has too few rows.
#include <cuda_fp8.h>
#include <cmath>
#include <map>
#include <string>

#include "on_host.h"
static float __uint_as_float(unsigned x) {
  float f;
  memcpy(&f, &x, 4);
  return f;
}
static unsigned __float_as_uint(float f) {
  unsigned x;
  memcpy(&x, &f, 4);
  return x;
}
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fadd_rn(float a, float b) { return a + b; }

#include "expert_combine.cuh"
#include "expert_dispatch.cuh"

using namespace nccl4j;
using simt::fail;

static std::map<std::string, u64> given;

static u64 get(const char* name) {
  auto found = given.find(name);
  if (found == given.end()) fail(name, -1);
  return found->second;
}

struct Round {
  std::vector<std::vector<int>> experts;  // of each rank
  std::vector<std::vector<float>> weights, tokens;
  std::vector<u32> counts;
  u32 combines;
};

struct Rank {
  nccl4jExpertArguments a;
  nccl4jControl control;
  std::vector<u64> own;
  std::vector<char> received;
  std::vector<float> scales;
  std::vector<int> counts, offsets;
  std::vector<std::unique_ptr<simt::Block>> blocks;
  std::vector<std::unique_ptr<experts::DispatchShared>> shared;
  std::vector<float> outputs, result;
  u32 round = 0;
  u32 combine = 0;  // of the round; 0 for its dispatch
  u32 left = 0;  // parts of the round's call, behind the kernel that runs
};

static std::vector<Round> rounds;
static std::vector<Rank> ranks;
static u32 n, gridBlocks, threads, maxTokens, topK, nExperts, local, hidden, fp8, fault;

static Round draw(bool last) {
  Round r;
  auto& random = simt::random;
  for (u32 rank = 0; rank < n; rank++) {
    const u32 kind = random() % 4;
    const u32 count = kind == 0 ? 0 : kind == 1 ? maxTokens : random() % (maxTokens + 1);
    const u32 most = random() % 4 == 0 ? 1 : nExperts;  // sometimes all go to one rank
    r.counts.push_back(count);
    r.experts.emplace_back();
    r.weights.emplace_back();
    r.tokens.emplace_back();
    for (u32 i = 0; i < count * topK; i++) {
      r.experts[rank].push_back((int)(random() % (most + 1)) - 1);
      r.weights[rank].push_back((float)(random() % 1000));
    }
    for (u32 i = 0; i < count * hidden; i++) r.tokens[rank].push_back((float)(random() % 20011) - 10000);
  }
  r.combines = random() % 4;
  if (last && fault) {
    r.counts[0] = maxTokens;
    r.experts[0].assign(maxTokens * topK, 0);
    r.weights[0].assign(maxTokens * topK, 1);
    r.tokens[0].assign(maxTokens * hidden, 1);
    r.combines = 2;
  }
  if (last && fault == 1) {
    r.experts[0][random() % (maxTokens * topK)] = random() % 2 ? (int)nExperts : -2;
  }
  return r;
}

static void launch(u32 me, u32 parts) {
  Rank& rank = ranks[me];
  const Round& round = rounds[rank.round];
  rank.a.send = (u64)round.tokens[me].data();
  rank.a.experts = (u64)round.experts[me].data();
  rank.a.weights = (u64)round.weights[me].data();
  rank.a.tokenCount = round.counts[me];
  rank.a.parts = parts;
  if (parts & EXPERT_SEND) {
    std::fill(rank.received.begin(), rank.received.end(), 0x77);
    std::fill(rank.counts.begin(), rank.counts.end(), 0x77);
    std::fill(rank.offsets.begin(), rank.offsets.end(), 0x77);
  }
  rank.blocks.clear();
  for (u32 b = 0; b < gridBlocks; b++) {
    memset(rank.shared[b].get(), 0x77, sizeof(experts::DispatchShared));
    rank.blocks.push_back(simt::start(b, gridBlocks, threads, [me, b] {
      Rank& r = ranks[me];
      if (fp8)
        experts::dispatch<float, experts::Wire::FP8>(r.a, *r.shared[b]);
      else
        experts::dispatch<float, experts::Wire::SAME>(r.a, *r.shared[b]);
    }));
  }
}

// An element of what an expert makes of a row.
static float outputOf(u32 call, u32 source, u32 entry, u32 element) {
  return (float)((call * 31 + source * 131 + entry * 7919 + element * 104729) % 2047) - 1000;
}

static u32 callOf(const Rank& rank) { return rank.round * 8 + rank.combine; }

constexpr float kPoison = -7777;

// True for the combine whose result has too few rows.
static bool isFault(u32 me) {
  return fault == 2 && me == 0 && ranks[me].round + 1 == rounds.size() && ranks[me].combine == 2;
}

static void launchCombine(u32 me, u32 parts) {
  Rank& rank = ranks[me];
  const Round& round = rounds[rank.round];
  if (parts & EXPERT_SEND) {
    rank.outputs.clear();
    for (u32 e = 0; e < local; e++)
      for (u32 source = 0; source < n; source++)
        for (u32 i = 0; i < round.experts[source].size(); i++) {
          if (round.experts[source][i] != (int)(me * local + e)) continue;
          for (u32 h = 0; h < hidden; h++) rank.outputs.push_back(outputOf(callOf(rank), source, i, h));
        }
    rank.result.assign(maxTokens * hidden, kPoison);
  }
  rank.a.send = (u64)rank.outputs.data();
  rank.a.sentRows = rank.outputs.size() / hidden;
  rank.a.recv = (u64)rank.result.data();
  rank.a.resultRows = round.counts[me] - isFault(me);
  rank.a.parts = parts;
  rank.blocks.clear();
  for (u32 b = 0; b < gridBlocks; b++)
    rank.blocks.push_back(simt::start(b, gridBlocks, threads, [me] { experts::combine<float>(ranks[me].a); }));
}

static void launchParts(u32 me, u32 parts) {
  if (ranks[me].combine > 0)
    launchCombine(me, parts);
  else
    launch(me, parts);
}

static void begin(u32 me) {
  const bool whole = simt::random() % 2;
  ranks[me].left = whole ? 0 : EXPERT_RECEIVE;
  launchParts(me, whole ? EXPERT_SEND | EXPERT_RECEIVE : EXPERT_SEND);
}

// After a rank's combine has ended.
static void checkCombine(u32 me) {
  const Rank& rank = ranks[me];
  const Round& round = rounds[rank.round];
  for (u32 i = 0; i < maxTokens * hidden; i++) {
    const u32 token = i / hidden;
    const bool sums = token < round.counts[me];
    float sum = 0;
    for (u32 entry = token * topK; sums && entry < (token + 1) * topK; entry++)
      if (round.experts[me][entry] >= 0)
        sum += round.weights[me][entry] * outputOf(callOf(rank), me, entry, i % hidden);
    if (rank.result[i] != (sums ? sum : kPoison)) fail("a wrong sum", me);
  }
}

static void checkRow(u32 me, u32 row, const float* token) {
  const Rank& rank = ranks[me];
  const char* found = &rank.received[(u64)row * rank.a.wireRow];
  if (!fp8) {
    if (memcmp(found, token, rank.a.wireRow)) fail("a wrong row", me);
    return;
  }
  for (u32 group = 0; group < hidden / NCCL4J_EXPERT_GROUP; group++) {
    const float* x = token + group * NCCL4J_EXPERT_GROUP;
    float most = 0;
    for (u32 e = 0; e < NCCL4J_EXPERT_GROUP; e++) most = max(most, std::fabs(x[e]));
    if (most == 0) most = 448;
    if (rank.scales[row * (hidden / NCCL4J_EXPERT_GROUP) + group] != most / 448) fail("a wrong scale", me);
    for (u32 e = 0; e < NCCL4J_EXPERT_GROUP; e++) {
      const auto code = __nv_cvt_float_to_fp8(x[e] * (448 / most), __NV_SATFINITE, __NV_E4M3);
      if ((unsigned char)found[group * NCCL4J_EXPERT_GROUP + e] != code) fail("a wrong code", me);
    }
  }
}

// After a rank's dispatch has ended.
static void check(u32 me) {
  Rank& rank = ranks[me];
  const Round& round = rounds[rank.round];
  std::map<u32, u32> entryOf;  // of a row
  u32 row = 0;
  for (u32 e = 0; e < local; e++) {
    if (rank.offsets[e] != (int)row) fail("a wrong offset", me);
    for (u32 source = 0; source < n; source++) {
      const u32 before = row;
      const auto& experts = round.experts[source];
      for (u32 i = 0; i < experts.size(); i++) {
        if (experts[i] != (int)(me * local + e)) continue;
        checkRow(me, row, &round.tokens[source][i / topK * hidden]);
        entryOf[row++] = source * maxTokens * topK + i;
      }
      if (rank.counts[e * n + source] != (int)(row - before)) fail("a wrong count", me);
    }
  }
  if (rank.offsets[local] != (int)row) fail("a wrong number of rows", me);
  const char* own = (const char*)rank.own.data();
  for (u32 b = 0; b < gridBlocks; b++) {
    const nccl4jExpertState& state = ((const nccl4jExpertState*)rank.a.state)[b];
    const u64* list = (const u64*)rank.a.lists + b * rank.a.listCapacity;
    if (state.dispatches != rank.round + 1 || state.kind != EXPERT_DISPATCH) fail("a wrong state", me);
    u32 at = 0;
    for (u32 batch = 0; batch < state.batches; batch++)
      for (; at < state.listed[batch]; at++) {
        const u32 itsRow = (u32)(list[at] >> 32), entry = (u32)list[at], token = entry / topK % maxTokens;
        auto found = entryOf.find(itsRow);
        if (found == entryOf.end() || found->second != entry) fail("a wrong entry in a list", me);
        if (token % gridBlocks != b) fail("an entry in another block's list", me);
        if (token / gridBlocks / state.batchTokens != batch) fail("an entry in another batch", me);
        entryOf.erase(found);
      }
  }
  if (!entryOf.empty()) fail("a row in no list", me);
  const u64 bytes = 4ull * round.counts[me] * topK;
  if (bytes > 0 && memcmp(own + get("keptExperts"), round.experts[me].data(), bytes)) fail("wrong kept experts", me);
  if (bytes > 0 && memcmp(own + get("keptWeights"), round.weights[me].data(), bytes)) fail("wrong kept weights", me);
  if (*(const u32*)(own + get("keptCount")) != round.counts[me]) fail("a wrong kept count", me);
}

// After all kernels have ended by the fault of the first rank.
static void checkFault() {
  const nccl4jControl& control = ranks[0].control;
  if (!control.failed || control.failedPeer != 0) fail("no failure", 0);
  if (control.failedKind != (fault == 1 ? experts::kInvalidExpert : experts::kFewResults))
    fail("a failure of another kind", 0);
  if (fault == 2) {
    if (control.failedStep != ((u64)(maxTokens - 1) << 32 | maxTokens)) fail("another failure", 0);
    for (float each : ranks[0].result)
      if (each != kPoison) fail("a store to a result with too few rows", 0);
    return;
  }
  const auto& experts = rounds.back().experts[0];
  const u32 entry = std::find_if(experts.begin(), experts.end(), [](int e) { return e < -1 || e >= (int)nExperts; }) -
                    experts.begin();
  if (control.failedStep != ((u64)entry << 32 | (u32)experts[entry])) fail("another failure", 0);
  for (u32 me = 0; me < n; me++) {
    const u32 block = entry / topK % gridBlocks;
    if (((const nccl4jExpertState*)ranks[me].a.state)[block].dispatches == rounds.size()) fail("takes the fault", me);
  }
}

int main(int count, char** arguments) {
  for (int i = 1; i < count; i++) {
    const char* value = strchr(arguments[i], '=');
    given[std::string(arguments[i], value - arguments[i])] = strtoull(value + 1, nullptr, 10);
  }
  simt::random.seed(get("seed"));
  n = get("nRanks");
  gridBlocks = get("blocks");
  threads = get("threads");
  maxTokens = get("maxTokens");
  topK = get("topK");
  nExperts = get("experts");
  hidden = get("hidden");
  fp8 = get("fp8");
  fault = get("fault");
  local = nExperts / n;
  packsAreLate = true;
  const u32 number = get("rounds");
  for (u32 i = 0; i < number; i++) rounds.push_back(draw(i + 1 == number));
  const u64 stride = (get("windowBytes") + 127) / 128 * 128;
  std::vector<uint4> windows(n * stride / 16);
  windowsBegin = (char*)windows.data();
  windowsEnd = windowsBegin + n * stride;
  onLoadPack = [](const void* p) {
    static const u64 end = get("tokens") + 2ull * n * maxTokens * get("stagedRow"), all = get("windowBytes");
    const u64 at = (const char*)p - windowsBegin;
    if ((const char*)p >= windowsBegin && at % ((all + 127) / 128 * 128) >= end) fail("loads behind the tokens", -1);
  };
  ranks.resize(n);
  for (u32 me = 0; me < n; me++) {
    Rank& rank = ranks[me];
    nccl4jExpertArguments& a = rank.a;
    memset(&a, 0, sizeof a);
    memset(&rank.control, 0, sizeof rank.control);
    rank.own.resize(get("ownBytes") / 8 + 1);
    const u64 own = (u64)rank.own.data();
    a.comm.control = (u64)&rank.control;
    a.comm.budget = 1000;
    a.comm.rank = me;
    a.comm.nRanks = n;
    a.window = (u64)windowsBegin;
    a.stride = stride;
    a.dispatchFlags = get("dispatchFlags");
    a.combineFlags = get("combineFlags");
    a.beginFlags = get("beginFlags");
    a.outputs = get("outputs");
    a.messages = get("messages");
    a.messageBytes = get("messageBytes");
    a.tokens = get("tokens");
    a.stagedRow = get("stagedRow");
    a.state = own + get("state");
    a.lists = own + get("lists");
    a.listCapacity = get("listCapacity");
    a.places = own + get("places");
    a.keptExperts = own + get("keptExperts");
    a.keptWeights = own + get("keptWeights");
    a.keptCount = own + get("keptCount");
    a.rows = (u64)n * maxTokens * topK;
    a.rowBytes = hidden * 4;
    a.wireRow = fp8 ? hidden : hidden * 4;
    a.hidden = hidden;
    a.maxTokens = maxTokens;
    a.blockTokens = get("blockTokens");
    a.topK = topK;
    a.nExperts = nExperts;
    a.localExperts = local;
    a.countsOfLine = get("countsOfLine");
    a.wholeLines = get("wholeLines");
    a.pace = get("pace");
    rank.received.resize(a.rows * a.wireRow);
    rank.scales.resize(a.rows * (hidden / NCCL4J_EXPERT_GROUP + 1));
    rank.counts.resize(local * n);
    rank.offsets.resize(local + 1);
    a.received = (u64)rank.received.data();
    a.scales = (u64)rank.scales.data();
    a.counts = (u64)rank.counts.data();
    a.offsets = (u64)rank.offsets.data();
    for (u32 b = 0; b < gridBlocks; b++) rank.shared.emplace_back(new experts::DispatchShared);
  }
  for (u32 me = 0; me < n; me++) begin(me);
  // Often a block rests for a while, so that others come as far as they can without it.
  u32 restingRank = 0, restingBlock = 0;
  u64 steps = 0, rests = 0;
  for (u32 running = n; running > 0; steps++) {
    if (steps > 1ull << 28) fail("waits for ever", -1);
    if (steps == rests) {
      restingRank = simt::random() % (n + 1);
      restingBlock = simt::random() % gridBlocks;
      rests = steps + 1 + simt::random() % (1ull << simt::random() % 18);
    }
    if (simt::random() % 4 == 0) arrive();
    const u32 me = simt::random() % n, block = simt::random() % gridBlocks;
    Rank& rank = ranks[me];
    if (rank.round == number || (me == restingRank && block == restingBlock)) continue;
    simt::runWarp(*rank.blocks[block], simt::random() % (threads / 32));
    bool aborts = false;
    for (const Rank& any : ranks) aborts |= any.control.abort;
    if (aborts)
      for (Rank& any : ranks) any.control.abort = 1;  // as the hosts do
    auto runs = [](auto& b) { return b->ended < b->lanes.size(); };
    if (std::any_of(rank.blocks.begin(), rank.blocks.end(), runs)) continue;
    for (const auto& block : rank.blocks) release(block.get());  // a kernel's end shows its stores
    if (rank.left != 0 && !aborts) {
      launchParts(me, rank.left);
      rank.left = 0;
      continue;
    }
    if (!aborts && rank.combine > 0) checkCombine(me);
    if (!aborts && rank.combine == 0) check(me);
    if (!aborts && rank.combine < rounds[rank.round].combines) {
      rank.combine++;
      begin(me);
      continue;
    }
    rank.combine = 0;
    if (aborts && !fault) fail("a failure", me);
    rank.round = aborts ? number : rank.round + 1;
    if (rank.round < number)
      begin(me);
    else
      running--;
  }
  if (fault) checkFault();
  printf("%u\n", number);
  return 0;
}
