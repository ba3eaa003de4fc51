/*
 * What it costs two cores to hand 256 KiB to each other through shared memory, by the way in which the
 * writer copies. Each core copies its data into its slot, waits for the other, and copies the other's
 * slot out. One line every 0.15 s, in microseconds.
 *
 *   gcc -O2 -mavx2 -pthread docs/benchmarks/shared-lines.c -o /tmp/shared-lines && /tmp/shared-lines 200
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BYTES = 256 << 10, TIMES = 200, WAYS = 4 };
static const char *const names[WAYS] = {"memcpy", "rep movsb", "32-byte", "streaming"};
static char *user[2], *slot[2], *out[2];
static _Alignas(64) struct { atomic_int value; char rest[60]; } arrived[2];
static int lines;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static void copy(char *to, const char *from, int way) {
  size_t n = BYTES;
  if (way == 0) {
    memcpy(to, from, n);
  } else if (way == 1) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
  } else {
    for (size_t i = 0; i < n; i += 32) {
      __m256i data = _mm256_loadu_si256((const __m256i *)(from + i));
      if (way == 2) {
        _mm256_storeu_si256((__m256i *)(to + i), data);
      } else {
        _mm256_stream_si256((__m256i *)(to + i), data);
      }
    }
    _mm_sfence();
  }
}

static void meet(int self, int *times) {
  atomic_store(&arrived[self].value, ++*times);
  while (atomic_load(&arrived[1 - self].value) < *times) {
    _mm_pause();
  }
}

static void *run(void *argument) {
  int self = (int)(long)argument, times = 0;
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(self, &core);
  pthread_setaffinity_np(pthread_self(), sizeof core, &core);
  for (int line = 0; line < lines; line++) {
    for (int way = 0; way < WAYS; way++) {
      meet(self, &times);
      double start = now();
      for (int i = 0; i < TIMES; i++) {
        copy(slot[self], user[self], way);
        meet(self, &times);
        copy(out[self], slot[1 - self], 0);
        meet(self, &times);
      }
      if (self == 0) {
        printf("%10.2f%s", (now() - start) / TIMES, way == WAYS - 1 ? "\n" : " ");
      }
    }
    nanosleep(&(struct timespec){0, 150000000}, NULL);
  }
  return NULL;
}

static char *memory(int flags) {
  char *start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  return memset(start, 1, BYTES);
}

int main(int argc, char **argv) {
  lines = argc > 1 ? atoi(argv[1]) : 100;
  for (int way = 0; way < WAYS; way++) {
    printf("%10s%s", names[way], way == WAYS - 1 ? "\n" : " ");
  }
  for (int r = 0; r < 2; r++) {
    user[r] = memory(MAP_PRIVATE);
    slot[r] = memory(MAP_SHARED);
    out[r] = memory(MAP_PRIVATE);
  }
  pthread_t thread[2];
  for (long r = 0; r < 2; r++) {
    pthread_create(&thread[r], NULL, run, (void *)r);
  }
  for (int r = 0; r < 2; r++) {
    pthread_join(thread[r], NULL);
  }
}
