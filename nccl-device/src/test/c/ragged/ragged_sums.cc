// Runs the combination of copies (ragged_sum.cuh) on the host, for whole numbers of 64 bits, in place and for all
// alignments of 8 bytes, and compares what it stores and what lies around.
//   ragged_sums SEED
// Prints the runs, or the first error.
#include "on_host.h"

#include "ragged_sum.cuh"

using namespace nccl4j;
using simt::fail;
using Number = long long;

constexpr u64 kPoison = 0x5a5a5a5a5a5a5a5a;
constexpr u64 kGuard = 4;  // numbers

static Number combined(u32 op, const std::vector<Number>& of) {
  Number result = of[0];
  for (size_t i = 1; i < of.size(); i++)
    result = op == MAX ? std::max(result, of[i]) : op == MIN ? std::min(result, of[i]) : result + of[i];
  return op == AVG ? result / (Number)of.size() : result;
}

static void run() {
  auto& random = simt::random;
  const u32 copies = 1 + random() % 5, values = 1 + random() % 3, blocks = 1 + random() % 3;
  const u32 threads = 32 * (1 + random() % 2), ops[] = {SUM, MAX, MIN, AVG};
  const u64 elements = random() % 4 == 0 ? 0 : random() % 100, count = elements * values;
  const u64 first = kGuard + random() % 2;
  std::vector<uint4> memory((copies * count + 2 * kGuard + 4) / 2 + 1);
  Number* numbers = (Number*)memory.data();
  const u64 all = 2 * memory.size();
  for (u64 i = 0; i < all; i++) numbers[i] = kPoison;
  for (u64 i = 0; i < copies * count; i++) numbers[first + i] = (Number)(random() % 2001) - 1000;
  const std::vector<Number> before(numbers, numbers + all);
  u64 wide[2] = {elements, kPoison};
  u32 narrow[2] = {(u32)elements, ~0u};
  nccl4jRaggedSumArguments a = {};
  a.send = a.recv = (u64)(numbers + first);
  a.wide = random() % 2;
  a.counted = a.wide ? (u64)wide : (u64)narrow;
  a.values = values;
  a.copies = copies;
  a.op = ops[random() % 4];
  std::vector<std::unique_ptr<simt::Block>> running;
  for (u32 b = 0; b < blocks; b++)
    running.push_back(simt::start(b, blocks, threads, [&a] { ragged::sumCopies<Number>(a); }));
  for (u32 ended = 0; ended < blocks;) {
    simt::Block& block = *running[random() % blocks];
    if (block.ended == block.lanes.size()) continue;
    simt::runWarp(block, random() % (threads / 32));
    if (block.ended == block.lanes.size()) ended++;
  }
  for (u64 i = 0; i < all; i++) {
    Number expected = before[i];
    if (i >= first && i < first + count) {
      std::vector<Number> of;
      for (u32 copy = 0; copy < copies; copy++) of.push_back(before[i + copy * count]);
      expected = combined(a.op, of);
    }
    if (numbers[i] != expected) fail("a wrong number", (int)i);
  }
}

int main(int, char** arguments) {
  simt::random.seed(strtoull(arguments[1], nullptr, 10));
  for (int i = 0; i < 500; i++) run();
  printf("500\n");
  return 0;
}
