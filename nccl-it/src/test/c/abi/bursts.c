// Times warm calls of rank 0 of two ranks, a GPU each, that this thread drives, in bursts that are
// shorter than the queue of a stream, so that no call waits for a GPU. Prints the median and the
// least nanoseconds of a call, for a collective and for a group of a send and a receive.
// docs/benchmarks/warm-calls.sh runs it with a driver that does nothing.
#include "checks.h"
#include "driver.h"
#include <time.h>

enum { RANKS = 2, BURST = 100, ROUNDS = 2000, COUNT = 1024 };

static struct {
  ncclComm_t comm;
  void *context, *stream;
  float *from, *to;
} ranks[RANKS];

static void gather(int rank) {
  OK(ncclAllGather(ranks[rank].from, ranks[rank].to, COUNT, ncclFloat32, ranks[rank].comm,
                   ranks[rank].stream));
}

static void exchange(int rank) {
  OK(ncclGroupStart());
  OK(ncclSend(ranks[rank].from, COUNT, ncclFloat32, 1 - rank, ranks[rank].comm, ranks[rank].stream));
  OK(ncclRecv(ranks[rank].to, COUNT, ncclFloat32, 1 - rank, ranks[rank].comm, ranks[rank].stream));
  OK(ncclGroupEnd());
}

static double burst(void (*call)(int), int rank) {
  struct timespec begin, end;
  CHECK(!driver.make_current(ranks[rank].context));
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < BURST; i++) call(rank);
  clock_gettime(CLOCK_MONOTONIC, &end);
  return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / BURST;
}

static int compare(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const char* what, void (*call)(int)) {
  static double took[ROUNDS];
  for (int round = -ROUNDS; round < ROUNDS; round++) {
    double nanos = burst(call, 0);
    for (int rank = 1; rank < RANKS; rank++) burst(call, rank);
    for (int rank = 0; rank < RANKS; rank++) await(ranks[rank].stream);
    if (round >= 0) took[round] = nanos;
  }
  qsort(took, ROUNDS, sizeof *took, compare);
  printf("%s: %.0f ns a call (median), %.0f (least)\n", what, took[ROUNDS / 2], took[0]);
}

int main(void) {
  ncclComm_t comms[RANKS];
  load_driver();
  for (int rank = 0; rank < RANKS; rank++) {
    ranks[rank].context = use_gpu(rank);
    ranks[rank].stream = create_stream();
    ranks[rank].from = allocate(RANKS * COUNT * sizeof(float));
    ranks[rank].to = allocate(RANKS * COUNT * sizeof(float));
  }
  OK(ncclCommInitAll(comms, RANKS, NULL));
  for (int rank = 0; rank < RANKS; rank++) ranks[rank].comm = comms[rank];
  measure("all_gather", gather);
  measure("send and receive", exchange);
  for (int rank = 0; rank < RANKS; rank++) OK(ncclCommDestroy(comms[rank]));
  return 0;
}
