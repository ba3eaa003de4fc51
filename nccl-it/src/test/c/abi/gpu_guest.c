// Cases, by name, of how the library treats a program whose operations run on a GPU: how the program may end,
// fork, abort, and handle signals meanwhile. Two ranks share GPU 0: needs NCCL_MULTI_RANK_GPU_ENABLE=1. Runs on
// the tests' driver, whose operations run until the test ends them, and on a GPU, where an operation runs while
// the other rank has not called it. A case that hangs ends by SIGALRM.
#define _GNU_SOURCE
#include "checks.h"
#include "driver.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { RANKS = 2, COUNT = 1 << 16, MOST_SECONDS = 150, PATIENCE_SECONDS = 100 };
static ncclComm_t comms[RANKS];
static void* streams[RANKS];
static char *from, *to;  // of all ranks

static void prepare(void) {
  load_driver();
  use_gpu(0);
  from = allocate(COUNT * sizeof(float));
  to = allocate(RANKS * COUNT * sizeof(float));
  for (int rank = 0; rank < RANKS; rank++) streams[rank] = create_stream();
}

static ncclResult_t sum(int rank) {
  return ncclAllReduce(from, to + rank * COUNT * sizeof(float), COUNT, ncclFloat32, ncclSum, comms[rank],
                       streams[rank]);
}

// One operation of all ranks, to its end.
static void use(void) {
  OK(ncclGroupStart());
  for (int rank = 0; rank < RANKS; rank++) OK(sum(rank));
  OK(ncclGroupEnd());
  for (int rank = 0; rank < RANKS; rank++) await(streams[rank]);
}

static void create(void) {
  int gpus[RANKS] = {0, 0};
  OK(ncclCommInitAll(comms, RANKS, gpus));
  use();
}

static void destroy(void) {
  for (int rank = 0; rank < RANKS; rank++) OK(ncclCommDestroy(comms[rank]));
}

// From now on rank 0's operation waits for rank 1.
static void begin_operation(void) {
  if (driver.operate) driver.operate(1);
  OK(sum(0));
}

// On a GPU the library has ended it.
static void end_operation(void) {
  if (driver.operate) driver.operate(0);
  await(streams[0]);
}

static void left(void) {
  prepare();
  create();
  begin_operation();
}

static ncclComm_t alone;
static void* alones_stream;

static void* call_for_ever(void* unused) {
  use_gpu(0);
  while (1) ncclAllReduce(from, to, 1, ncclFloat32, ncclSum, alone, alones_stream);
  return unused;
}

// Nobody is the other rank.
static void* create_for_ever(void* unused) {
  ncclUniqueId id;
  ncclComm_t none;
  use_gpu(0);
  OK(ncclGetUniqueId(&id));
  ncclCommInitRank(&none, RANKS, id, 0);
  return unused;
}

static void* destroy_for_ever(void* unused) {
  ncclCommDestroy(comms[0]);
  return unused;
}

static void* end_process(void* unused) {
  (void)unused;
  usleep(200000);
  puts("all was right");
  exit(0);
}

// A thread ends the process while others call, create, destroy and wait.
static void exit_elsewhere(void) {
  void* (*bodies[])(void*) = {call_for_ever, create_for_ever, destroy_for_ever, end_process};
  int first = 0;
  pthread_t thread;
  prepare();
  create();
  OK(ncclCommInitAll(&alone, 1, &first));
  alones_stream = create_stream();
  begin_operation();
  for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) CHECK(!pthread_create(&thread, NULL, bodies[i], NULL));
  await(streams[0]);
  while (1) pause();
}

static void refused(void) {
  ncclUniqueId id;
  ncclComm_t none;
  void* memory;
  alarm(MOST_SECONDS);
  memset(&id, 0, sizeof id);
  REFUSED(ncclSystemError, "forked", ncclGetUniqueId(&id));
  REFUSED(ncclSystemError, "forked", ncclCommInitRank(&none, 1, id, 0));
  REFUSED(ncclSystemError, "forked", ncclCommInitAll(&none, 1, NULL));
  REFUSED(ncclSystemError, "forked", ncclMemAlloc(&memory, 4096));
  REFUSED(ncclSystemError, "forked", ncclGroupStart());
  REFUSED(ncclSystemError, "forked", sum(0));
  REFUSED(ncclSystemError, "forked", ncclCommAbort(comms[0]));
  REFUSED(ncclSystemError, "forked", ncclCommDestroy(comms[0]));
}

// A child that is forked while an operation runs gets errors, and ends as any process; its parent goes on.
static void fork_after(void) {
  int status;
  prepare();
  create();
  if (driver.operate) driver.operate(1);
  fflush(stdout);
  pid_t pid = fork();
  if (!pid) {
    refused();
    if (driver.operate) exit(0);
    _exit(0);  // CUDA's functions of a process's end are not for forked ones
  }
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  if (driver.operate) driver.operate(0);
  use();
  destroy();
}

static ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state;
  OK(ncclCommGetAsyncError(comm, &state));
  return state;
}

// The error that a communicator has at last.
static ncclResult_t error_of(ncclComm_t comm) {
  time_t end = time(NULL) + PATIENCE_SECONDS;
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess && time(NULL) < end) {
    state = state_of(comm);
    usleep(1000);
  }
  return state;
}

// The other rank hears of it, and the process has other communicators afterwards.
static void abort_inside(void) {
  prepare();
  create();
  begin_operation();
  usleep(100000);
  OK(ncclCommAbort(comms[0]));
  CHECK(error_of(comms[1]) == ncclRemoteError);
  end_operation();
  OK(ncclCommAbort(comms[1]));
  create();
  destroy();
}

static void* finalize(void* unused) {
  ncclCommFinalize(comms[0]);  // with success, or the error of the abort
  return unused;
}

// Another thread waits for the end of the operation.
static void abort_while_finalized(void) {
  pthread_t thread;
  prepare();
  create();
  begin_operation();
  CHECK(!pthread_create(&thread, NULL, finalize, NULL));
  time_t end = time(NULL) + PATIENCE_SECONDS;
  while (state_of(comms[0]) != ncclInProgress && time(NULL) < end) usleep(1000);
  CHECK(state_of(comms[0]) == ncclInProgress);
  OK(ncclCommAbort(comms[0]));
  CHECK(!pthread_join(thread, NULL));
  end_operation();
  OK(ncclCommAbort(comms[1]));
  create();
  destroy();
}

static void be_rank(int rank, const ncclUniqueId* id) {
  prepare();
  OK(ncclCommInitRank(comms + rank, RANKS, *id, rank));
  OK(sum(rank));
  await(streams[rank]);
}

// A rank that a signal ends: the process ends by that signal, and the other rank hears of it.
static void killed(int number) {
  ncclUniqueId id;
  int ids[2], ready[2], status;
  char byte = 0;
  CHECK(!pipe(ids) && !pipe(ready));
  pid_t pid = fork();
  if (!pid) {
    alarm(MOST_SECONDS);
    struct sigaction usual = {.sa_handler = SIG_DFL};
    CHECK(number == SIGKILL || !sigaction(number, &usual, NULL));  // a shell's background processes ignore SIGINT
    OK(ncclGetUniqueId(&id));
    CHECK(write(ids[1], &id, sizeof id) == sizeof id);
    be_rank(1, &id);
    if (driver.operate) driver.operate(1);
    OK(sum(1));
    CHECK(write(ready[1], &byte, 1) == 1);
    while (1) pause();
  }
  CHECK(read(ids[0], &id, sizeof id) == sizeof id);
  be_rank(0, &id);
  CHECK(read(ready[0], &byte, 1) == 1);
  CHECK(!kill(pid, number));
  CHECK(waitpid(pid, &status, 0) == pid);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != number) printf("status 0x%x after signal %d\n", status, number);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == number);
  CHECK(error_of(comms[0]) == ncclRemoteError);
  OK(ncclCommAbort(comms[0]));
}

static void killed_by_kill(void) { killed(SIGKILL); }
static void killed_by_term(void) { killed(SIGTERM); }
static void killed_by_int(void) { killed(SIGINT); }
static void killed_by_usr(void) { killed(SIGUSR2); }

static sigjmp_buf behind;
static volatile sig_atomic_t taken;

static void take(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  taken = number;
}

static void jump(int number, siginfo_t* info, void* context) {
  (void)info, (void)context;
  taken = number;
  siglongjmp(behind, 1);
}

// An access of the program's own to memory that is not there.
static void fault(void) {
  volatile int* volatile nowhere = (volatile int*)16;
  taken = 0;
  if (!sigsetjmp(behind, 1)) {
    *nowhere = 1;
    CHECK(!"the access has passed");
  }
  CHECK(taken == SIGSEGV);
}

static void* fault_elsewhere(void* unused) {
  fault();  // on a thread that has not called NCCL
  use_gpu(0);
  use();
  fault();
  return unused;
}

// Handlers that the program had before its first call are the same after it, and are called.
static void handlers(void) {
  int numbers[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGCHLD};
  struct sigaction mine, found;
  pthread_t thread;
  memset(&mine, 0, sizeof mine);
  mine.sa_sigaction = take;
  mine.sa_flags = SA_SIGINFO | SA_RESTART;
  sigaddset(&mine.sa_mask, SIGWINCH);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) CHECK(!sigaction(numbers[i], &mine, NULL));
  struct sigaction faults = mine;
  faults.sa_sigaction = jump;
  faults.sa_flags = SA_SIGINFO | SA_NODEFER;
  CHECK(!sigaction(SIGSEGV, &faults, NULL));
  prepare();
  create();
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    CHECK(!sigaction(numbers[i], NULL, &found));
    CHECK(found.sa_sigaction == take && (found.sa_flags & (SA_SIGINFO | SA_RESTART)) == mine.sa_flags);
    CHECK(sigismember(&found.sa_mask, SIGWINCH) == 1 && !sigismember(&found.sa_mask, SIGPIPE));
    taken = 0;
    CHECK(!pthread_kill(pthread_self(), numbers[i]));
    CHECK(taken == numbers[i]);
  }
  fault();
  use();
  fault();
  CHECK(!pthread_create(&thread, NULL, fault_elsewhere, NULL));
  CHECK(!pthread_join(thread, NULL));
  destroy();
}

int main(int n, char** arguments) {
  struct {
    const char* name;
    void (*body)(void);
  } cases[] = {{"left", left},
               {"exit-elsewhere", exit_elsewhere},
               {"fork-after", fork_after},
               {"abort", abort_inside},
               {"abort-while-finalized", abort_while_finalized},
               {"killed-KILL", killed_by_kill},
               {"killed-TERM", killed_by_term},
               {"killed-INT", killed_by_int},
               {"killed-USR2", killed_by_usr},
               {"handlers", handlers}};
  alarm(MOST_SECONDS);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (n == 2 && !strcmp(arguments[1], cases[i].name)) {
      cases[i].body();
      puts("all was right");
      return 0;
    }
  puts("no such case");
  return 2;
}
