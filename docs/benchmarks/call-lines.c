// Counts the instructions of single calls of ncclAllReduce and the cache lines of code that they go
// through, by single steps, and prints lines and instructions by library and, for compiled Java, by
// method.
//
//     gcc -O2 -shared -fPIC call-lines.c -o call-lines.so -ldl
//     STEPPED_CALLS=2,7,40 nccl4j/nccl with -- env LD_PRELOAD=$PWD/call-lines.so ./calls 1
//
// Names of methods need the JDK's jcmd on the PATH (17 or newer).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 64, MOST_LINES = 1 << 14, MOST_STEPS = 20000000, MOST_NAMES = 1 << 15, PRINTED = 70 };
enum { TRAP_FLAG = 0x100 };
typedef int AllReduce(const void*, void*, size_t, int, int, void*, void*);

struct name {
  uint64_t begin, end;
  int lines;
  long steps;
  char text[160];
};

static uint64_t lines[MOST_LINES];
static long steps_in[MOST_LINES];
static int n_lines;
static struct name names[MOST_NAMES];
static int n_names;

// The tracer knows the call by these.
__attribute__((noinline)) static void begin_call(void) { __asm__ volatile(""); }
__attribute__((noinline)) static void end_call(void) { __asm__ volatile("nop"); }

// --- Names ---------------------------------------------------------------------------------------

static void add_name(uint64_t begin, uint64_t end, const char* text) {
  if (n_names == MOST_NAMES) return;
  struct name* name = &names[n_names++];
  name->begin = begin;
  name->end = end;
  snprintf(name->text, sizeof name->text, "%s", text);
}

static void add_methods(pid_t process) {
  char command[128], path[64], row[1024], text[160];
  snprintf(command, sizeof command, "timeout 20 jcmd %d Compiler.perfmap > /dev/null 2>&1", process);
  snprintf(path, sizeof path, "/tmp/perf-%d.map", process);
  unsetenv("LD_PRELOAD");
  FILE* file = system(command) ? NULL : fopen(path, "r");
  if (!file) return;
  uint64_t begin, bytes;
  while (fgets(row, sizeof row, file))
    if (sscanf(row, "%lx %lx %159[^\n]", &begin, &bytes, text) == 3) add_name(begin, begin + bytes, text);
  fclose(file);
  unlink(path);
}

static void add_libraries(pid_t process) {
  char path[64], row[1024];
  snprintf(path, sizeof path, "/proc/%d/maps", process);
  FILE* file = fopen(path, "r");
  while (file && fgets(row, sizeof row, file)) {
    uint64_t begin, end;
    char rights[8], text[512] = "code without a name";
    if (sscanf(row, "%lx-%lx %7s %*s %*s %*s %511[^\n]", &begin, &end, rights, text) < 3) continue;
    char* slash = strrchr(text, '/');
    if (rights[2] == 'x') add_name(begin, end, slash ? slash + 1 : text);
  }
  if (file) fclose(file);
}

static int by_lines(const void* a, const void* b) {
  return ((const struct name*)b)->lines - ((const struct name*)a)->lines;
}

static void report(pid_t process, int call, long steps) {
  add_methods(process);
  add_libraries(process);
  for (int l = 0; l < n_lines; l++)
    for (int n = 0; n < n_names; n++)
      if (names[n].begin < lines[l] + LINE && lines[l] < names[n].end) {
        names[n].lines++;
        names[n].steps += steps_in[l];
        break;
      }
  qsort(names, n_names, sizeof *names, by_lines);
  printf("process %d, call %d: %ld instructions, %d lines of code\n", process, call, steps, n_lines);
  for (int n = 0; n < n_names && n < PRINTED && names[n].lines; n++)
    printf("%6d %7ld  %s\n", names[n].lines, names[n].steps, names[n].text);
  fflush(stdout);
}

// --- Steps ---------------------------------------------------------------------------------------

static void add_step(uint64_t line) {
  static struct {
    uint64_t line;
    int number;
  } seen[4 * MOST_LINES];
  uint64_t at = line / LINE % (4 * MOST_LINES);
  while (seen[at].line && seen[at].line != line) at = (at + 1) % (4 * MOST_LINES);
  if (!seen[at].line) {
    if (n_lines == MOST_LINES) return;
    seen[at].line = lines[n_lines] = line;
    seen[at].number = n_lines++;
  }
  steps_in[seen[at].number]++;
}

// Steps through a thread that waits for the pipe, from the begin of its call to the end.
static void trace(pid_t process, pid_t thread, int call, int pipe_end) {
  int status;
  if (ptrace(PTRACE_ATTACH, thread, 0, 0) || waitpid(thread, &status, __WALL) != thread) {
    perror("call-lines: the thread cannot be traced");
    return;
  }
  if (write(pipe_end, "", 1) != 1) return;
  long steps = 0, signal = 0;
  struct user_regs_struct registers;
  for (bool inside = false; steps < MOST_STEPS;) {
    if (ptrace(PTRACE_SINGLESTEP, thread, 0, signal) || waitpid(thread, &status, __WALL) != thread ||
        !WIFSTOPPED(status)) {
      fprintf(stderr, "call-lines: call %d ended after %ld instructions, status %x\n", call, steps, status);
      return;
    }
    signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_GETREGS, thread, 0, &registers);
    if (registers.rip == (uintptr_t)end_call) break;
    if (inside) {
      steps++;
      add_step(registers.rip / LINE * LINE);
    }
    inside |= registers.rip == (uintptr_t)begin_call;
  }
  // Code that has saved and restored the flags has made the steps' flag the program's own.
  registers.eflags &= ~TRAP_FLAG;
  ptrace(PTRACE_SETREGS, thread, 0, &registers);
  ptrace(PTRACE_DETACH, thread, 0, 0);
  report(process, call, steps);
}

static int step_through(AllReduce* all_reduce, int call, const void* from, void* to, size_t count, int type, int op,
                        void* comm, void* stream) {
  int ends[2];
  char word;
  if (pipe(ends)) abort();
  pid_t process = getpid(), thread = syscall(SYS_gettid);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  pid_t tracer = fork();
  if (!tracer) {
    trace(process, thread, call, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  if (read(ends[0], &word, 1) < 0) abort();
  begin_call();
  int result = all_reduce(from, to, count, type, op, comm, stream);
  end_call();
  close(ends[0]);
  waitpid(tracer, NULL, 0);
  return result;
}

// --- The function of the library -----------------------------------------------------------------

static bool is_stepped(int call) {
  const char* list = getenv("STEPPED_CALLS");
  for (char* end; list && *list; list = *end ? end + 1 : end)
    if (strtol(list, &end, 10) == call) return true;
  return false;
}

int ncclAllReduce(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream) {
  static AllReduce* all_reduce;
  static int calls;
  if (!all_reduce) all_reduce = (AllReduce*)dlsym(RTLD_NEXT, "ncclAllReduce");
  int call = ++calls;
  return is_stepped(call) ? step_through(all_reduce, call, from, to, count, type, op, comm, stream)
                          : all_reduce(from, to, count, type, op, comm, stream);
}
