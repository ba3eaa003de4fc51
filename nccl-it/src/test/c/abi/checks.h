// Checks of the programs beside this file: the first that fails ends the program.
#include "../../../main/c/nccl.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition)                                                                       \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      printf("%s:%d: not so: %s; last error: %s\n", __FILE__, __LINE__, #condition,            \
             ncclGetLastError(NULL));                                                          \
      fflush(stdout);                                                                          \
      _exit(1);                                                                                \
    }                                                                                          \
  } while (0)

#define GIVES(expected, call)                                                                  \
  do {                                                                                         \
    ncclResult_t given_ = (call);                                                              \
    if (given_ != (expected)) {                                                                \
      printf("%s:%d: %s gave %d (%s)\n", __FILE__, __LINE__, #call, given_,                    \
             ncclGetLastError(NULL));                                                          \
      fflush(stdout);                                                                          \
      _exit(1);                                                                                \
    }                                                                                          \
  } while (0)

#define OK(call) GIVES(ncclSuccess, call)

// A refusal has a sentence that names what is wrong.
#define REFUSED(code, word, call)                                                              \
  do {                                                                                         \
    GIVES(code, call);                                                                         \
    CHECK(strstr(ncclGetLastError(NULL), word));                                               \
  } while (0)

static inline ncclConfig_t config(int version, size_t size) {
  ncclConfig_t made;
  memset(&made, 0x7f, sizeof made);  // what is behind an older structure
  int* numbers = &made.blocking;
  for (int i = 0; i < 4; i++) numbers[i] = UNDEFINED;
  made.netName = NULL;
  made.splitShare = made.trafficClass = UNDEFINED;
  made.commName = NULL;
  numbers = &made.collnetEnable;
  for (int i = 0; i < 10; i++) numbers[i] = UNDEFINED;
  made.size = size;
  made.magic = (unsigned)CONFIG_MAGIC;
  made.version = version;
  return made;
}

static inline ncclConfig_t newest(void) { return config(23007, sizeof(ncclConfig_t)); }

// True for a line of the JVM's log, whose lines begin with "[thread]", that the calling thread wrote. What
// the library's other threads load, such as the first heartbeat, delays no call.
static inline int is_by_this_thread(const char* line) {
  return *line == '[' && atol(line + 1) == syscall(SYS_gettid);
}

// Runs a rank on a thread of its own.
typedef void Rank(int rank);
struct started {
  Rank* body;
  int rank;
};

static inline void* run_rank(void* given) {
  struct started* rank = given;
  rank->body(rank->rank);
  return NULL;
}

static inline void run_ranks(int n, Rank* body) {
  pthread_t threads[64];
  struct started ranks[64];
  for (int rank = 0; rank < n; rank++) {
    ranks[rank] = (struct started){body, rank};
    CHECK(!pthread_create(threads + rank, NULL, run_rank, ranks + rank));
  }
  for (int rank = 0; rank < n; rank++) CHECK(!pthread_join(threads[rank], NULL));
}
