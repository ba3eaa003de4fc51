// Memory of ncclMemAlloc that comes to an address where other such memory was before: two ranks, which are
// processes. The host device alone.
#include "checks.h"
#include <sys/wait.h>

enum { BYTES = 4 << 20, ROUNDS = 4 };

int main(void) {
  int ends[2], rank = 0;
  CHECK(!pipe(ends));
  pid_t other = fork();
  CHECK(other >= 0);
  if (!other) rank = 1;
  ncclUniqueId id;
  if (rank) {
    CHECK(read(ends[0], &id, sizeof id) == sizeof id);
  } else {
    OK(ncclGetUniqueId(&id));
    CHECK(write(ends[1], &id, sizeof id) == sizeof id);
  }
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, 2, id, rank));
  int again = 0;
  void* before = NULL;
  for (int round = 0; round < ROUNDS; round++) {
    void* data;
    OK(ncclMemAlloc(&data, BYTES));
    again += data == before;
    before = data;
    memset(data, rank ? 0 : 10 + round, BYTES);
    OK(ncclBroadcast(data, data, BYTES, ncclUint8, 0, comm, NULL));
    for (int i = 0; i < BYTES; i++) CHECK(((unsigned char*)data)[i] == 10 + round);
    OK(ncclMemFree(data));
  }
  CHECK(again);  // else nothing was tested
  OK(ncclCommDestroy(comm));
  int status = 0;
  if (rank) return 0;
  CHECK(waitpid(other, &status, 0) == other && !status);
  puts("all was right");
  return 0;
}
