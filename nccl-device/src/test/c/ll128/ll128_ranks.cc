// Runs operations by direct_ll128.cuh for all ranks on the host, as simt.h interleaves their warps, each rank as far ahead
// of the others as the kernels let it, with a number of blocks and threads of its own. Compares all results, and the
// bytes around them.
//   ll128_ranks RANKS OPERATIONS SEED
// Prints the operations, or the first error.
#include <optional>

#include "on_host.h"
#include "direct_calls.h"
#include "direct_ll128.cuh"

constexpr u64 kMost = 9000, kEpoch = 0, kLines = 4096;
constexpr u64 kLineBytes = (kMost + direct::kGroupData - 1) / direct::kGroupData * direct::kGroupBytes;

struct Rank {
  std::mt19937_64 random;
  nccl4jDirectArguments a;
  nccl4jControl control;
  std::optional<Call> call;
  std::vector<std::unique_ptr<simt::Block>> blocks;
  u32 threads, done = 0;
};

static void launch(Rank& rank, const Operation& o) {
  rank.call.emplace(rank.a.comm.rank, rank.done, o, rank.random);
  nccl4jDirectArguments& a = rank.a;
  a.send = (u64)rank.call->from;
  a.recv = (u64)rank.call->to;
  a.bytes = o.bytes;
  a.operation = o.operation;
  a.op = o.op;
  a.root = o.root;
  a.comm.signature = o.signature;
  rank.threads = 32 * (1 + rank.random() % 4);
  rank.blocks.clear();
  const u32 blocks = 1 + rank.random() % 4;
  for (u32 b = 0; b < blocks; b++)
    rank.blocks.push_back(simt::start(b, blocks, rank.threads, [&a, combines = o.combines()] {
      if (combines)
        direct::ll128<long long, direct::Received::COMBINED>(a);
      else
        direct::ll128<uint8_t, direct::Received::STORED>(a);
    }));
}

int main(int, char** arguments) {
  n = atoi(arguments[1]);
  const u32 number = atoi(arguments[2]);
  simt::random.seed(strtoull(arguments[3], nullptr, 10));
  std::vector<Operation> operations;
  for (u32 i = 0; i < number; i++) operations.push_back(draw(simt::random() % 2, i % 3 ? kMost - 8 : 600, simt::random));
  const u64 stride = kLines + 2 * n * kLineBytes;
  std::vector<uint4> windows(n * stride / 16);
  windowsBegin = (char*)windows.data();
  windowsEnd = windowsBegin + n * stride;
  std::vector<Rank> ranks(n);
  for (int r = 0; r < n; r++) {
    Rank& rank = ranks[r];
    memset(&rank.a, 0, sizeof rank.a);
    memset(&rank.control, 0, sizeof rank.control);
    rank.random.seed(simt::random());
    rank.a.comm.rank = r;
    rank.a.comm.nRanks = n;
    rank.a.comm.control = (u64)&rank.control;
    rank.a.comm.budget = 1000;
    rank.a.resources = (u64)windowsBegin;
    rank.a.stride = stride;
    rank.a.epoch = kEpoch;
    rank.a.lines = kLines;
    rank.a.lineBytes = kLineBytes;
    launch(rank, operations[0]);
  }
  auto before = [] {};  // lines are there at once
  simt::runRanks(ranks, number, before, [&](int me) {
    Rank& rank = ranks[me];
    const u32 ended = rank.done - 1;
    check(me, ended, operations[ended], rank.call->to);
    rank.call->checkAround(me, ended);
    if (rank.done < number) launch(rank, operations[rank.done]);
  });
  printf("%u operations\n", number);
  return 0;
}
