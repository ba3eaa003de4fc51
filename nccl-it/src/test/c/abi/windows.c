// Buffers in windows and in registered memory, at offsets that differ between the ranks. Needs
// NCCL4J_DEVICE=host, and NCCL_ALGO=DirectOneShot, with which operations go between windows where
// they may.
#include "checks.h"

enum { RANKS = 2, BYTES = 1 << 16, COUNT = 256, APART = 8192 };
static ncclComm_t comms[RANKS];
static float* memory[RANKS];
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

// Sums from and into memory of which each rank passes another part.
static ncclResult_t sum_apart(int rank) {
  float *from = memory[rank] + rank * APART / 4, *to = from + COUNT;
  for (int i = 0; i < COUNT; i++) from[i] = 1 + rank + i;
  ncclResult_t result = ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comms[rank], NULL);
  for (int i = 0; !result && i < COUNT; i++) CHECK(to[i] == 3 + 2 * i);
  return result;
}

static void in_a_plain_window(int rank) {
  ncclWindow_t window;
  OK(ncclCommWindowRegister(comms[rank], memory[rank], BYTES, &window, 0));
  OK(sum_apart(rank));
  OK(ncclCommWindowDeregister(comms[rank], window));
}

// Only if all ranks say so, a window is symmetric.
static void in_a_window_of_two_kinds(int rank) {
  ncclWindow_t window;
  int flags = rank ? 0 : WINDOW_SYMMETRIC;
  OK(ncclCommWindowRegister(comms[rank], memory[rank], BYTES, &window, flags));
  OK(sum_apart(rank));
  OK(ncclCommWindowDeregister(comms[rank], window));
}

static void in_registered_memory(int rank) {
  void* registration;
  OK(ncclCommRegister(comms[rank], memory[rank], BYTES, &registration));
  for (int time = 0; time < 3; time++) OK(sum_apart(rank));
  OK(ncclCommDeregister(comms[rank], registration));
}

// Other memory at the addresses of a window's is not what the other ranks have mapped.
static void in_memory_that_was_freed(int rank) {
  ncclWindow_t window;
  float *first = memory[rank], sum[COUNT];
  OK(ncclCommWindowRegister(comms[rank], first, BYTES, &window, WINDOW_SYMMETRIC));
  pthread_mutex_lock(&one);
  OK(ncclMemFree(first));
  OK(ncclMemAlloc((void**)(memory + rank), BYTES));
  pthread_mutex_unlock(&one);
  if (memory[rank] != first) return;  // nothing to see
  REFUSED(ncclInvalidUsage, "closed while it was registered",
          ncclAllReduce(first, sum, COUNT, ncclFloat32, ncclSum, comms[rank], NULL));
}

// The program breaks its word, and the communicator with it.
static void in_a_symmetric_window(int rank) {
  ncclWindow_t window;
  OK(ncclCommWindowRegister(comms[rank], memory[rank], BYTES, &window, WINDOW_SYMMETRIC));
  REFUSED(ncclInvalidUsage, "places", sum_apart(rank));
}

static void with(Rank* body) {
  OK(ncclCommInitAll(comms, RANKS, NULL));
  for (int r = 0; r < RANKS; r++) OK(ncclMemAlloc((void**)(memory + r), BYTES));
  run_ranks(RANKS, body);
  for (int r = 0; r < RANKS; r++) OK(ncclCommAbort(comms[r]));
  for (int r = 0; r < RANKS; r++) OK(ncclMemFree(memory[r]));
}

int main(void) {
  with(in_a_plain_window);
  with(in_a_window_of_two_kinds);
  with(in_registered_memory);
  with(in_a_symmetric_window);
  with(in_memory_that_was_freed);
  puts("all was right");
  return 0;
}
