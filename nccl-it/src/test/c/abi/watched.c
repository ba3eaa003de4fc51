// Two ranks on the host that sum again and again, till the standard input ends: to be watched by
// other processes. Needs NCCL4J_DEVICE=host.
#include "checks.h"

enum { RANKS = 2, COUNT = 1000 };
static ncclUniqueId id;
static volatile int over;

static void* work(void* number) {
  int rank = (int)(long)number;
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, RANKS, id, rank));
  float data[COUNT + 1] = {0};
  do {
    // The last element tells both ranks at once that it is over.
    data[COUNT] = over;
    OK(ncclAllReduce(data, data, COUNT + 1, ncclFloat32, ncclSum, comm, NULL));
  } while (data[COUNT] == 0);
  OK(ncclCommDestroy(comm));
  return NULL;
}

int main(void) {
  pthread_t threads[RANKS];
  OK(ncclGetUniqueId(&id));
  for (long rank = 0; rank < RANKS; rank++) pthread_create(&threads[rank], NULL, work, (void*)rank);
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  over = 1;
  for (int rank = 0; rank < RANKS; rank++) pthread_join(threads[rank], NULL);
  puts("all was right");
  return 0;
}
