// Time to go through lines of 64 bytes of memory, one after the other, just after they were used and after
// the thread has computed for 40 ms with nothing of them, as a program does between two operations:
//   gcc -O1 -o cold-lines cold-lines.c && ./cold-lines [LINES [PAGES]]
// Lines are spread over pages of 4 KiB as code is. Prints microseconds: least, median and most of 60 turns.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 60, PAGE = 4096, LINE = 64, PAUSE_MICROS = 40000, MOST_PAGES = 8192 };

static double micros(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int by_size(const void* a, const void* b) {
  double first = *(const double*)a, second = *(const double*)b;
  return (first > second) - (first < second);
}

// Each line has the address of the next; the last has none.
static void** chain(char* memory, int lines, int pages) {
  int each = (lines + pages - 1) / pages;
  void **first = NULL, **before = NULL;
  for (int i = 0; i < lines; i++) {
    size_t page = (size_t)(i / each) * 7919 % MOST_PAGES;
    void** line = (void**)(memory + page * PAGE + (size_t)(i % each) * 37 % (PAGE / LINE) * LINE);
    if (before) *before = line;
    else first = line;
    before = line;
  }
  *before = NULL;
  return first;
}

static void measure(void** first, double pause, const char* name) {
  double took[TURNS];
  for (int turn = 0; turn < TURNS; turn++) {
    for (double end = micros() + pause; micros() < end;) continue;
    double begin = micros();
    void** at = first;
    while (at) at = *at;
    __asm__ volatile("" ::"r"(at));
    took[turn] = micros() - begin;
  }
  qsort(took, TURNS, sizeof *took, by_size);
  printf("%s: %.0f, %.0f, %.0f\n", name, took[0], took[TURNS / 2], took[TURNS - 1]);
}

int main(int n, char** arguments) {
  int lines = n > 1 ? atoi(arguments[1]) : 1400, pages = n > 2 ? atoi(arguments[2]) : 200;
  char* memory = aligned_alloc(PAGE, (size_t)MOST_PAGES * PAGE);
  if (!memory || pages < 1 || pages > MOST_PAGES || lines < pages || lines > pages * (PAGE / LINE)) return 1;
  memset(memory, 1, (size_t)MOST_PAGES * PAGE);
  void** first = chain(memory, lines, pages);
  measure(first, 100, "just used");
  measure(first, PAUSE_MICROS, "after 40 ms");
}
