// Waits of one thread by wait.cuh, a poll every 10 ns. Prints nothing, or the first error.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wait.cuh"

using namespace nccl4j;

constexpr u64 kBudget = 10'000'000;  // ns

static nccl4jControl control;

static void expect(bool right, const char* error) {
  if (right) return;
  printf("%s: peer %d, channel %d, kind %u, step %llu\n", error, control.failedPeer, control.failedChannel,
         control.failedKind, (unsigned long long)control.failedStep);
  exit(0);
}

static Patience fresh() {
  memset(&control, 0, sizeof control);
  nccl4jCommunicator comm;
  memset(&comm, 0, sizeof comm);
  comm.control = (u64)&control;
  comm.budget = kBudget;
  return Patience(comm);
}

// Polls for some time.
static bool waits(Patience& patience, u64 nanoseconds, int peer, u32 kind, u64 step, u64 unlike = 0) {
  for (const u64 end = now + nanoseconds; now < end; now += 10)
    if (patience.exhausted(peer, 2, kind, step, [&] { return unlike; })) return true;
  return false;
}

int main() {
  Patience patience = fresh();
  for (u64 step = 0; step < 1000; step++)
    expect(!waits(patience, kBudget / 10, 5, 0, step), "gave up though steps came");
  for (u64 step = 0; step < 100; step++) {
    expect(!waits(patience, kBudget / 4, 5, 0, 1000), "gave up the data between");
    expect(!waits(patience, kBudget / 4, 5, 1, 1000), "gave up the credit between");
    expect(!waits(patience, kBudget / 4, 6, 0, 1000), "gave up the other rank between");
  }
  const u64 begin = now;
  expect(waits(patience, 2 * kBudget, 7, 1, 77), "waits for ever");
  expect(now - begin >= kBudget && now - begin < kBudget * 11 / 10, "gave up at another time");
  expect(control.failed && control.abort && control.failedPeer == 7 && control.failedChannel == 2 &&
             control.failedKind == 1 && control.failedStep == 77,
         "reports another wait");
  patience = fresh();
  const u64 look = 1024 * 10;  // ns
  expect(!waits(patience, look, 5, 0, 1, 99), "one look is not enough");
  expect(!waits(patience, look, 5, 0, 1), "gave up the right call");
  expect(!waits(patience, look, 5, 0, 1, 99) && !waits(patience, look, 5, 0, 2, 98), "nor one of each wait");
  expect(!waits(patience, look, 5, 0, 2, 97), "nor a line that comes in parts");
  expect(waits(patience, look, 5, 0, 2, 97), "does not see another call");
  expect(control.failedKind == kOtherCall && control.failedStep == 97, "reports another failure");
  patience = fresh();
  control.abort = 1;
  expect(waits(patience, 20'000, 5, 0, 1), "does not end with the others");
}
