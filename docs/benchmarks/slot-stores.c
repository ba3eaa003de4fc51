/*
 * One process sends to another through 8 slots, as a broadcast does, the sender's copy by the C library
 * or by streaming stores. Microseconds of a message: the least of 400, the quartiles and the median.
 *
 *   gcc -O2 -mavx2 docs/benchmarks/slot-stores.c -o /tmp/slot-stores && /tmp/slot-stores 64 8
 *
 * The arguments are the KiB of a slot and the steps of a message.
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 8, TIMES = 400, BUFFER = 64 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

static void stream(char *to, const char *from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 32) {
    _mm256_stream_si256((__m256i *)(to + i), _mm256_loadu_si256((const __m256i *)(from + i)));
  }
  _mm_sfence();
}

static void bind(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

static int order(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return (difference > 0) - (difference < 0);
}

int main(int count, char **arguments) {
  size_t slot = (count > 1 ? atoi(arguments[1]) : 64) << 10;
  int steps = count > 2 ? atoi(arguments[2]) : 8;
  if (slot == 0 || steps < 1 || slot * steps > BUFFER) return 2;
  size_t shared = 8192 + SLOTS * slot;
  int file = memfd_create("slots", 0);
  if (file < 0 || ftruncate(file, shared) != 0) return 1;
  char *all = mmap(0, shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (all == MAP_FAILED) return 1;
  memset(all, 0, shared);
  atomic_long *tail = (atomic_long *)all, *head = (atomic_long *)(all + 4096);
  int sends = fork() == 0;
  char *buffer = aligned_alloc(4096, BUFFER);
  memset(buffer, 1, BUFFER);
  bind(sends);
  long step = 0;
  static double times[TIMES];
  for (int streams = 0; streams < 2; streams++) {
    for (int time = 0; time < TIMES; time++) {
      double begin = now();
      for (int s = 0; s < steps; s++, step++) {
        char *at = all + 8192 + step % SLOTS * slot, *own = buffer + s * slot;
        if (sends) {
          while (atomic_load(head) < step - (SLOTS - 1)) _mm_pause();
          if (streams) stream(at, own, slot); else memcpy(at, own, slot);
          atomic_store_explicit(tail, step + 1, memory_order_release);
        } else {
          while (atomic_load(tail) <= step) _mm_pause();
          memcpy(own, at, slot);
          atomic_store_explicit(head, step + 1, memory_order_release);
        }
      }
      times[time] = now() - begin;
    }
    qsort(times, TIMES, sizeof *times, order);
    if (!sends) {
      printf("%s %.1f %.1f %.1f %.1f us\n", streams ? "streaming" : "memcpy   ", times[0],
             times[TIMES / 4], times[TIMES / 2], times[TIMES * 3 / 4]);
    }
  }
  return 0;
}
