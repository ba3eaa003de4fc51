// Times the first all-reduces of ranks that are processes, a GPU each (or the host's memory, with
// NCCL4J_DEVICE=host): out of place, in the program's stream, each awaited before the next. Prints
// a line for each rank, with the processor time of the JVM's start and of the creation, in parentheses,
// and with the calls among 2 to 50 that took longer than 100 us: the thread's processor time of each, in
// parentheses, and how often another thread took the processor from it.
// Then the first calls of other operations, and of groups, each awaited too.
//   calls [RANKS [COUNT [PAUSE]]]
// With PAUSE, milliseconds without a call of the library before each tenth call, prints the times of these
// calls too.
// With FIRST_CALLS=LOG, where the JVM of rank R writes its -Xlog:class+load,jit+compilation=debug to
// LOG.R, checks what these calls met instead.
#define _GNU_SOURCE  // RUSAGE_THREAD
#include "checks.h"
#include "driver.h"
#include <dirent.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { MOST_RANKS = 16, CALLS = 200, FIRST = 50, TOO_LONG = 100, PATIENCE_SECONDS = 240 };

static double microseconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

// --- What the JVM did ----------------------------------------------------------------------------

// Classes that a call on a GPU enters, as ARCHITECTURE.md has them.
static const char* const ENTERED[] = {
    "abi.Entry::launch",          "api.Communicator::allReduce",
    "OperationDispatcher::",      "ArgumentCheck::",
    "launch.Launcher::",          "Planner::",
    "PlanCache::",                "CudaKernelCommunicator::launchNow",
    "CudaContext::",              "DriverLibrary::launch",
    "CudaKernelPlan::launch",     "ConnectionOrder::follow"};
enum { ENTERED_CLASSES = sizeof ENTERED / sizeof *ENTERED };

// The class of the list that a line of the log is about; -1 for another.
static int entered(const char* line) {
  for (int c = 0; c < ENTERED_CLASSES; c++)
    if (strstr(line, ENTERED[c])) return c;
  return -1;
}

static long lines(const char* log, int* compiled) {
  char line[4096];
  long n = 0;
  FILE* file = fopen(log, "r");
  CHECK(file);
  for (; fgets(line, sizeof line, file); n++) {
    int of = strchr(line, '\n') ? entered(line) : -1;
    if (of >= 0 && strstr(line, " bytes)\n")) compiled[of] = 1;
  }
  fclose(file);
  return n;
}

// True while the library's warm-up runs; a creation waits for it a few seconds only.
static int is_warming_up(void) {
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks);
  int found = 0;
  for (struct dirent* task; (task = readdir(tasks));) {
    char path[sizeof task->d_name + 32], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
    FILE* file = fopen(path, "r");
    if (!file) continue;
    found |= fgets(name, sizeof name, file) && !strcmp(name, "nccl4j-warm-up\n");
    fclose(file);
  }
  closedir(tasks);
  return found;
}

// Waits until the warm-up has ended and all that a call enters is compiled; returns the lines of the log.
static long await_compiled(const char* log) {
  int compiled[ENTERED_CLASSES] = {0};
  double end = microseconds(CLOCK_MONOTONIC) + PATIENCE_SECONDS * 1e6;
  while (microseconds(CLOCK_MONOTONIC) < end) {
    if (is_warming_up()) {
      usleep(50000);
      continue;
    }
    long n = lines(log, compiled);
    int missing = 0;
    for (int c = 0; c < ENTERED_CLASSES; c++) missing += !compiled[c];
    if (!missing) return n;
    usleep(50000);
  }
  for (int c = 0; c < ENTERED_CLASSES; c++)
    if (!compiled[c]) printf("the warm-up has not compiled %s\n", ENTERED[c]);
  CHECK(0);
  return 0;
}

// This thread loaded no class of nccl4j, and no compiled method of a call was given up for being wrong.
static void check_from(const char* log, long from, const char* name) {
  char line[4096];
  FILE* file = fopen(log, "r");
  CHECK(file);
  int wrong = 0;
  for (long n = 0; fgets(line, sizeof line, file); n++) {
    int loads = is_by_this_thread(line) && strstr(line, "source:") && strstr(line, "org.nccl4j");
    int gives_up = strstr(line, "   4   ") && strstr(line, "made not entrant") && entered(line) >= 0;
    if (n < from || !(loads || gives_up)) continue;
    printf("%s: %s", name, line);
    wrong = 1;
  }
  fclose(file);
  CHECK(!wrong);
}

// --- Ranks ---------------------------------------------------------------------------------------

static ncclUniqueId share_id(int rank, int ranks, const int* pipe_ends) {
  ncclUniqueId id;
  if (rank) {
    CHECK(read(pipe_ends[0], &id, sizeof id) == sizeof id);
    return id;
  }
  OK(ncclGetUniqueId(&id));
  for (int other = 1; other < ranks; other++)
    CHECK(write(pipe_ends[1], &id, sizeof id) == sizeof id);
  return id;
}

// What a call took, in microseconds.
struct call {
  double time;
  double processor;  // of the thread, or of all threads
  long switches;     // times that another thread took the processor
};

static struct call begin_call(void) {
  struct rusage usage;
  CHECK(!getrusage(RUSAGE_THREAD, &usage));
  struct call begun = {0, microseconds(CLOCK_THREAD_CPUTIME_ID), usage.ru_nivcsw};
  begun.time = microseconds(CLOCK_MONOTONIC);
  return begun;
}

static struct call end_call(struct call begun) {
  double time = microseconds(CLOCK_MONOTONIC);
  struct call now = begin_call();
  return (struct call){time - begun.time, now.processor - begun.processor, now.switches - begun.switches};
}

// What all threads of the process do.
static struct call begin_work(void) {
  return (struct call){microseconds(CLOCK_MONOTONIC), microseconds(CLOCK_PROCESS_CPUTIME_ID), 0};
}

static struct call end_work(struct call begun) {
  struct call now = begin_work();
  return (struct call){now.time - begun.time, now.processor - begun.processor, 0};
}

static void print(int rank, struct call start, struct call creation, const struct call* took) {
  char text[FIRST * 64];
  double sum = 0, worst = 0;
  int above = 0, at = 0;
  for (int call = 1; call < FIRST; call++) {
    double time = took[call].time;
    sum += time;
    if (time > worst) worst = time;
    if (time <= TOO_LONG) continue;
    above++;
    at += snprintf(text + at, sizeof text - at, " %d: %.0f (%.0f, %ld)", call + 1, time, took[call].processor,
                   took[call].switches);
  }
  text[at] = 0;
  double later = 0;
  for (int call = CALLS / 2; call < CALLS; call++) later += took[call].time;
  printf("rank %d: JVM %.0f ms (%.0f), communicator %.0f ms (%.0f); us: first call %.0f, 2 to %d mean %.1f "
         "worst %.0f, later mean %.1f; above %d us: %d;%s\n",
         rank, start.time / 1e3, start.processor / 1e3, creation.time / 1e3, creation.processor / 1e3,
         took[0].time, FIRST, sum / (FIRST - 1), worst, later / (CALLS - CALLS / 2), TOO_LONG, above, text);
}

// Lets the caches of the processor go to others.
static void pause_for(long milliseconds) {
  double end = microseconds(CLOCK_MONOTONIC) + milliseconds * 1e3;
  while (microseconds(CLOCK_MONOTONIC) < end) continue;
}

static int by_time(const void* a, const void* b) {
  double first = ((const struct call*)a)->time, second = ((const struct call*)b)->time;
  return (first > second) - (first < second);
}

static void print_paused(int rank, const struct call* took) {
  struct call paused[CALLS / 10];
  int n = 0;
  for (int call = 10; call < CALLS; call += 10) paused[n++] = took[call];
  qsort(paused, n, sizeof *paused, by_time);
  printf("rank %d: after a pause, us: least %.0f, median %.0f, most %.0f\n", rank, paused[0].time,
         paused[n / 2].time, paused[n - 1].time);
}

// --- Other operations ----------------------------------------------------------------------------

enum kind {
  REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, ALL_TO_ALL, GATHER, SCATTER, SEND_AND_RECEIVE, TWO_SUMS,
  SCALED_SUM, KINDS
};
static const char* const KIND_NAMES[] = {
    "reduce", "all-gather", "reduce-scatter", "broadcast", "all-to-all", "gather", "scatter",
    "send and receive", "two all-reduces", "all-reduce with PreMulSum"};
enum { CALLS_OF_A_KIND = 20 };

struct place {
  ncclComm_t comm;
  int rank, ranks;
  char *from, *to;
  long count;  // of elements in each buffer
  ncclRedOp_t scaled;
  void* stream;
};

static void call_of(enum kind kind, const struct place* in) {
  const ncclDataType_t F = ncclFloat32;
  char *from = in->from, *to = in->to;
  size_t all = in->count, part = all / in->ranks, half = all / 2;
  int next = (in->rank + 1) % in->ranks, previous = (in->rank + in->ranks - 1) % in->ranks;
  switch (kind) {
    case REDUCE: OK(ncclReduce(from, to, all, F, ncclSum, 0, in->comm, in->stream)); break;
    case ALL_GATHER: OK(ncclAllGather(from, to, part, F, in->comm, in->stream)); break;
    case REDUCE_SCATTER: OK(ncclReduceScatter(from, to, part, F, ncclSum, in->comm, in->stream)); break;
    case BROADCAST: OK(ncclBroadcast(from, to, all, F, 0, in->comm, in->stream)); break;
    case ALL_TO_ALL: OK(ncclAlltoAll(from, to, part, F, in->comm, in->stream)); break;
    case GATHER: OK(ncclGather(from, to, part, F, 0, in->comm, in->stream)); break;
    case SCATTER: OK(ncclScatter(from, to, part, F, 0, in->comm, in->stream)); break;
    case SEND_AND_RECEIVE:
      OK(ncclGroupStart());
      OK(ncclSend(from, all, F, next, in->comm, in->stream));
      OK(ncclRecv(to, all, F, previous, in->comm, in->stream));
      OK(ncclGroupEnd());
      break;
    case TWO_SUMS:
      OK(ncclGroupStart());
      OK(ncclAllReduce(from, to, half, F, ncclSum, in->comm, in->stream));
      OK(ncclAllReduce(from + 4 * half, to + 4 * half, half, F, ncclSum, in->comm, in->stream));
      OK(ncclGroupEnd());
      break;
    case SCALED_SUM: OK(ncclAllReduce(from, to, all, F, in->scaled, in->comm, in->stream)); break;
    case KINDS: break;
  }
}

static void print_kinds(const struct place* in) {
  for (int kind = 0; kind < KINDS; kind++) {
    struct call took[CALLS_OF_A_KIND];
    double sum = 0, worst = 0;
    for (int call = 0; call < CALLS_OF_A_KIND; call++) {
      struct call begun = begin_call();
      call_of(kind, in);
      took[call] = end_call(begun);
      await(in->stream);
      if (call) sum += took[call].time;
      if (call && took[call].time > worst) worst = took[call].time;
    }
    printf("rank %d: %s, us: first %.0f (%.0f), 2 to %d mean %.1f worst %.0f\n", in->rank,
           KIND_NAMES[kind], took[0].time, took[0].processor, CALLS_OF_A_KIND,
           sum / (CALLS_OF_A_KIND - 1), worst);
  }
}

// The first call of each loads no class. On several ranks their plans load some.
static void check_kinds(const char* log, const struct place* in) {
  for (int kind = 0; kind < KINDS; kind++) {
    int compiled[ENTERED_CLASSES] = {0};
    long from = lines(log, compiled);
    call_of(kind, in);
    await(in->stream);
    check_from(log, from, KIND_NAMES[kind]);
  }
}

static void be_rank(int rank, int ranks, long count, long pause, const int* pipe_ends) {
  const char* first_calls = getenv("FIRST_CALLS");
  char log[1024], options[2048];
  if (first_calls) {
    snprintf(log, sizeof log, "%s.%d", first_calls, rank);
    snprintf(options, sizeof options, "-Xlog:class+load,jit+compilation=debug:file=%s:tid", log);
    setenv("NCCL_JAVA_OPTIONS", options, 1);
  }
  size_t bytes = count * sizeof(float);
  load_driver();
  if (!is_on_host()) use_gpu(rank);
  char* data = allocate(2 * bytes);
  void* stream = create_stream();
  static struct call took[CALLS];
  struct call begun = begin_work();
  ncclUniqueId id = share_id(rank, ranks, pipe_ends);
  struct call started = end_work(begun);
  begun = begin_work();
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, ranks, id, rank));
  struct call created = end_work(begun);
  long from = first_calls ? await_compiled(log) : 0;
  for (int call = 0; call < (first_calls ? FIRST : CALLS); call++) {
    if (pause && call && call % 10 == 0) pause_for(pause);
    begun = begin_call();
    OK(ncclAllReduce(data, data + bytes, count, ncclFloat32, ncclSum, comm, stream));
    took[call] = end_call(begun);
    await(stream);
  }
  float half = 0.5f;
  struct place in = {comm, rank, ranks, data, data + bytes, count, ncclSum, stream};
  if (first_calls) check_from(log, from, "all-reduce");
  OK(ncclRedOpCreatePreMulSum(&in.scaled, &half, ncclFloat32, ncclScalarHostImmediate, comm));
  if (first_calls) {
    if (ranks == 1) check_kinds(log, &in);
  } else {
    print(rank, started, created, took);
    print_kinds(&in);
  }
  if (pause) print_paused(rank, took);
  fflush(stdout);
  OK(ncclCommDestroy(comm));
}

int main(int n, char** arguments) {
  int ranks = n > 1 ? atoi(arguments[1]) : 2, ends[2], rank = 0;
  long count = n > 2 ? atol(arguments[2]) : 1024, pause = n > 3 ? atol(arguments[3]) : 0;
  CHECK(ranks > 0 && ranks <= MOST_RANKS && count > 0 && pause >= 0 && !pipe(ends));
  pid_t others[MOST_RANKS];
  for (int other = 1; other < ranks && !rank; other++)
    if (!(others[other] = fork())) rank = other;
  be_rank(rank, ranks, count, pause, ends);
  if (rank) return 0;
  int wrong = 0;
  for (int other = 1, status; other < ranks; other++)
    wrong |= waitpid(others[other], &status, 0) != others[other] || status;
  CHECK(!wrong);
  if (getenv("FIRST_CALLS")) puts("all was right");
  return 0;
}
