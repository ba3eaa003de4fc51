// Cases, by name, of how the library treats the program that it runs in. Needs
// NCCL4J_DEVICE=host.
#include "checks.h"
#include <signal.h>
#include <sys/wait.h>
#include <dirent.h>

extern char** environ;

static int has_jvm(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[1024];
  int found = 0;
  while (fgets(line, sizeof line, maps)) found |= strstr(line, "libjvm.so") != NULL;
  fclose(maps);
  return found;
}

static int threads(void) {
  DIR* tasks = opendir("/proc/self/task");
  int n = 0;
  while (readdir(tasks)) n++;
  closedir(tasks);
  return n;
}

static ncclComm_t comm;

static void use(int value) {
  int data = value;
  OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(data == value);
}

static void create(void) { OK(ncclCommInitAll(&comm, 1, NULL)); }

static void lazy(void) {
  int version;
  OK(ncclGetVersion(&version));
  CHECK(*ncclGetErrorString(ncclSystemError));
  CHECK(!*ncclGetLastError(NULL));
  GIVES(ncclInvalidArgument, ncclGetUniqueId(NULL));
  CHECK(!has_jvm());
  create();
  CHECK(has_jvm());
}

static int child(void (*body)(void)) {
  fflush(stdout);
  pid_t pid = fork();
  if (!pid) {
    body();
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid);
  return status;
}

static void work(void) {
  create();
  use(3);
}

static void refused(void) {
  ncclUniqueId id;
  REFUSED(ncclSystemError, "forked", ncclGetUniqueId(&id));
  int data = 1;
  REFUSED(ncclSystemError, "forked", ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  REFUSED(ncclSystemError, "forked", ncclCommDestroy(comm));
}

static void fork_before(void) {
  int version;
  OK(ncclGetVersion(&version));
  CHECK(child(work) == 0);
  CHECK(child(work) == 0);
  work();
}

static void fork_after(void) {
  work();
  CHECK(child(refused) == 0);
  use(4);
  OK(ncclCommDestroy(comm));
}

static void* first_call(void* unused) {
  (void)unused;
  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  return NULL;
}

static void refused_soon(void) {
  ncclUniqueId id;
  alarm(250);
  REFUSED(ncclSystemError, "forked", ncclGetUniqueId(&id));
}

// Another thread is in its first call, whose lock the child has for ever.
static void fork_during(void) {
  pthread_t first;
  CHECK(!pthread_create(&first, NULL, first_call, NULL));
  while (!has_jvm()) usleep(10);
  CHECK(child(refused_soon) == 0);
  CHECK(!pthread_join(first, NULL));
  work();
}

// The child ends as other processes do.
static void refused_to_the_end(void) {
  alarm(250);
  refused();
  exit(0);
}

static void fork_exit(void) {
  work();
  CHECK(child(refused_to_the_end) == 0);
  use(4);
  OK(ncclCommDestroy(comm));
}

static volatile int forks;
static ncclParamHandle_t parameter;

static void* fail_for_ever(void* unused) {
  while (forks) GIVES(ncclInvalidArgument, ncclGetUniqueId(NULL));
  return unused;
}

// Handles that do not exist are looked up, and no Java is asked.
static void* look_up_for_ever(void* unused) {
  const char* text;
  while (forks) GIVES(ncclInvalidArgument, ncclParamGetStr(NULL, &text));
  return unused;
}

static void refused_parameters(void) {
  const char *text, **names;
  int n;
  refused_soon();
  REFUSED(ncclSystemError, "forked", ncclParamGetStr(parameter, &text));
  REFUSED(ncclSystemError, "forked", ncclParamGetAllParameterKeys(&names, &n));
}

// Other threads have errors, whose texts a lock protects: a child has that lock for ever.
static void fork_locks(void) {
  enum { THREADS = 4, FORKS = 100 };
  pthread_t failing[THREADS];
  OK(ncclParamBind(&parameter, "NCCL4J_DEVICE"));
  forks = 1;
  for (int t = 0; t < THREADS; t++) CHECK(!pthread_create(failing + t, NULL, t % 2 ? look_up_for_ever : fail_for_ever, NULL));
  for (int time = 0; time < FORKS; time++) CHECK(child(refused_parameters) == 0);
  forks = 0;
  for (int t = 0; t < THREADS; t++) CHECK(!pthread_join(failing[t], NULL));
  work();
}

// The library was loaded by a path that begins in the folder where the program was then.
static void other_folder(void) {
  CHECK(!chdir("/"));
  work();
}

// The communicator is left to the end of the process.
static void left(void) { work(); }

static void one_call(int rank) { use(rank); }

static pthread_key_t ending;

static void call_at_the_end(void* value) { use((int)(intptr_t)value); }

static void thread_that_calls_at_its_end(int rank) {
  use(rank);
  CHECK(!pthread_setspecific(ending, (void*)(intptr_t)(1 + rank)));
}

static void many_threads(void) {
  work();
  CHECK(!pthread_key_create(&ending, call_at_the_end));  // destructors run in the order of the keys
  run_ranks(4, thread_that_calls_at_its_end);
  run_ranks(4, one_call);
  int before = threads();
  for (int time = 0; time < 20; time++) run_ranks(16, one_call);
  // The JVM may start a thread that compiles, and the system forget those that have ended later.
  for (int look = 0; look < 1000 && threads() > before + 4; look++) usleep(10000);
  CHECK(threads() <= before + 4);
}

static volatile sig_atomic_t taken;
static pthread_t taker;
static void take(int number) {
  taken = number;
  taker = pthread_self();
}

// The program's handlers stay, and the JVM's threads take no signal from its threads.
static void signals(void) {
  int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM};
  int n = sizeof numbers / sizeof *numbers;
  struct sigaction mine, found;
  memset(&mine, 0, sizeof mine);
  mine.sa_handler = take;
  for (int i = 0; i < n; i++) sigaction(numbers[i], &mine, NULL);
  sigset_t before, after;
  memset(&before, 0, sizeof before);  // the kernel fills a part of it
  memset(&after, 0, sizeof after);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  work();
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  CHECK(!memcmp(&before, &after, sizeof before));
  for (int i = 0; i < n; i++) {
    sigaction(numbers[i], NULL, &found);
    CHECK(found.sa_handler == take);
    taken = 0;
    kill(getpid(), numbers[i]);
    for (int ms = 0; ms < 5000 && !taken; ms++) usleep(1000);
    CHECK(taken == numbers[i] && pthread_equal(taker, pthread_self()));
  }
}

// With libjsig, a handler that comes after the JVM's does not replace it, and gets the signals that are not
// the JVM's.
static void late_handlers(void) {
  int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
  struct sigaction mine;
  void* handler[8];  // the kernel's structure, which begins with it
  memset(&mine, 0, sizeof mine);
  mine.sa_handler = take;
  work();
  for (int i = 0; i < 4; i++) {
    CHECK(!sigaction(numbers[i], &mine, NULL));
    CHECK(!syscall(SYS_rt_sigaction, numbers[i], NULL, handler, 8) && *handler != (void*)take);
    taken = 0;
    CHECK(!pthread_kill(pthread_self(), numbers[i]));
    CHECK(taken == numbers[i]);
    use(i);
  }
}

// Options for other JVMs, one of which this library's would not start with, are the program's.
static void others_options(void) {
  CHECK(!strcmp(getenv("JAVA_TOOL_OPTIONS"), "-XX:+UseParallelGC"));
  char name[32];
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "GUEST_%d", i);
    CHECK(!setenv(name, "set", 1));
  }
  // Other threads read these arrays, so neither is written to.
  char **before = environ, *entries[2000];
  size_t n = 0;
  while (n < 2000 && before[n]) n++;
  CHECK(n > 1000 && n < 2000);
  memcpy(entries, before, n * sizeof *entries);
  work();
  CHECK(environ == before && !memcmp(entries, before, n * sizeof *entries) && !before[n]);
  CHECK(!strcmp(getenv("JAVA_TOOL_OPTIONS"), "-XX:+UseParallelGC"));
  CHECK(!strcmp(getenv("_JAVA_OPTIONS"), "-Xmx1m"));
  CHECK(!getenv("_JAVA_SR_SIGNUM"));
}

static volatile int ended, is_set;

// Sets a variable from the time on at which the JVM has an environment of its own.
static void* set_meanwhile(void* program) {
  while (environ == program && !ended) usleep(10);
  if (ended) return NULL;
  CHECK(!setenv("GUEST", "set", 1));
  is_set = 1;
  return NULL;
}

// Variables that a thread of the program's sets while the JVM is created stay.
static void others_variables(void) {
  pthread_t setting;
  CHECK(!pthread_create(&setting, NULL, set_meanwhile, environ));
  work();
  ended = 1;
  CHECK(!pthread_join(setting, NULL));
  CHECK(!is_set || !strcmp(getenv("GUEST"), "set"));
  CHECK(!strcmp(getenv("JAVA_TOOL_OPTIONS"), "-XX:+UseParallelGC"));
  CHECK(!strcmp(getenv("_JAVA_OPTIONS"), "-Xmx1m"));
  CHECK(!getenv("_JAVA_SR_SIGNUM"));
}

static char** own;  // the program's array; NULL unless variables are to be changed beside the library's look
static void (*change)(void);

// The library compares the JVM's array with what it was, and then puts the program's back. Variables are changed
// between.
int memcmp(const void* first, const void* second, size_t bytes) {
  const volatile unsigned char *a = first, *b = second;
  int difference = 0;
  for (size_t i = 0; i < bytes && !difference; i++) difference = a[i] - b[i];
  if (own && environ != own && first == (const void*)environ) {
    own = NULL;
    change();
  }
  return difference;
}

static void set_guest(void) { CHECK(!setenv("GUEST", "set", 1)); }

static void others_variables_late(void) {
  own = environ;
  change = set_guest;
  work();
  CHECK(!own);
  CHECK(getenv("GUEST") && !strcmp(getenv("GUEST"), "set"));
  CHECK(!strcmp(getenv("JAVA_TOOL_OPTIONS"), "-XX:+UseParallelGC"));
  CHECK(!strcmp(getenv("_JAVA_OPTIONS"), "-Xmx1m"));
  CHECK(!getenv("_JAVA_SR_SIGNUM"));
}

// Both are written into the array of the time.
static void change_known(void) {
  CHECK(!setenv("GUEST_CHANGED", "later", 1));
  CHECK(!unsetenv("GUEST_GONE"));
}

static void others_variables_changed(void) {
  CHECK(!setenv("GUEST_KEPT", "kept", 1) && !setenv("GUEST_CHANGED", "before", 1) && !setenv("GUEST_GONE", "before", 1));
  own = environ;
  change = change_known;
  work();
  CHECK(!own);
  CHECK(!strcmp(getenv("GUEST_KEPT"), "kept"));
  CHECK(!strcmp(getenv("GUEST_CHANGED"), "later"));
  CHECK(!getenv("GUEST_GONE"));
  CHECK(!strcmp(getenv("JAVA_TOOL_OPTIONS"), "-XX:+UseParallelGC"));
  CHECK(!strcmp(getenv("_JAVA_OPTIONS"), "-Xmx1m"));
  CHECK(!getenv("_JAVA_SR_SIGNUM"));
}

static ncclComm_t two[2];
static void rank_that_ends(int rank) {
  static ncclUniqueId id;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static int made;
  pthread_mutex_lock(&lock);
  if (made++ % 2 == 0) OK(ncclGetUniqueId(&id));
  pthread_mutex_unlock(&lock);
  OK(ncclCommInitRank(two + rank, 2, id, rank));
}

static void* wait_forever(void* unused) {
  int data = 1;
  (void)unused;
  ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, two[0], NULL);
  return NULL;
}

// The process ends while a thread waits in a collective for a rank that does not come.
static void ends_inside(void) {
  run_ranks(2, rank_that_ends);
  pthread_t waiting;
  CHECK(!pthread_create(&waiting, NULL, wait_forever, NULL));
  pthread_detach(waiting);
  usleep(100000);
}

static void sum_of_two(const ncclUniqueId* id, int rank) {
  int data = 1 + rank;
  OK(ncclCommInitRank(&comm, 2, *id, rank));
  OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(data == 3);
}

static void stays_well(void) {
  ncclResult_t state;
  for (int ms = 0; ms < 300; ms++) {
    OK(ncclCommGetAsyncError(comm, &state));
    if (state) printf("error %d: %s\n", state, ncclGetLastError(comm));
    CHECK(!state);
    usleep(1000);
  }
  OK(ncclCommDestroy(comm));
}

// Another rank's process ends after an operation and a last act; this rank, which calls nothing any
// more, has no error.
static void outlives(void (*last)(void)) {
  ncclUniqueId id;
  int ends[2];
  CHECK(!pipe(ends));
  pid_t pid = fork();
  if (!pid) {
    OK(ncclGetUniqueId(&id));
    CHECK(write(ends[1], &id, sizeof id) == sizeof id);
    sum_of_two(&id, 0);
    last();
    exit(0);
  }
  CHECK(read(ends[0], &id, sizeof id) == sizeof id);
  sum_of_two(&id, 1);
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && !status);
  stays_well();
}

// The other rank has not destroyed its communicator.
static void nothing(void) {}
static void departs(void) { outlives(nothing); }

// The other rank aborts when its operations have ended, as PyTorch does.
static void abort_comm(void) { OK(ncclCommAbort(comm)); }
static void aborts(void) { outlives(abort_comm); }

// A window's part on another machine has no address on this one.
static void far_peers(void) {
  ncclUniqueId id;
  ncclWindow_t window;
  void *memory, *part = NULL;
  int ends[2], status;
  CHECK(!pipe(ends));
  pid_t pid = fork();
  int rank = !pid;
  CHECK(!setenv("NCCL_HOSTID", rank ? "one" : "another", 1) && !setenv("NCCL_SOCKET_IFNAME", "lo", 1));
  if (!rank) {
    OK(ncclGetUniqueId(&id));
    CHECK(write(ends[1], &id, sizeof id) == sizeof id);
  } else {
    CHECK(read(ends[0], &id, sizeof id) == sizeof id);
  }
  OK(ncclCommInitRank(&comm, 2, id, rank));
  OK(ncclMemAlloc(&memory, 4096));
  OK(ncclCommWindowRegister(comm, memory, 4096, &window, 0));
  OK(ncclGetPeerDevicePointer(window, 8, rank, &part));
  CHECK(part);
  OK(ncclGetPeerDevicePointer(window, 8, 1 - rank, &part));
  CHECK(!part);
  OK(ncclGetLsaDevicePointer(window, 8, 0, &part));
  CHECK(part);
  REFUSED(ncclInvalidArgument, "not a place", ncclGetLsaDevicePointer(window, 8, 1, &part));
  OK(ncclCommDestroy(comm));
  if (!pid) exit(0);
  CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void last_calls(void) {
  use(9);
  OK(ncclCommDestroy(comm));
}

// Destructors of programs in C++ and of Python's modules run when the JVM's own have run.
static void at_exit(void) {
  CHECK(!atexit(last_calls));
  work();
}

static void* wait_for_error(void* unused) {
  int data = 1;
  (void)unused;
  ncclResult_t result = ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, two[0], NULL);
  return result == ncclRemoteError && strstr(ncclGetLastError(NULL), "closed") ? NULL : &two;
}

// An abort ends a call that waits for a rank that does not come. On a busy machine the call may come after
// the abort, and is tried again.
static void abort_inside(void) {
  void* wrong = &two;
  for (unsigned pause = 100000; wrong && pause < 20000000; pause *= 5) {
    run_ranks(2, rank_that_ends);
    pthread_t waiting;
    CHECK(!pthread_create(&waiting, NULL, wait_for_error, NULL));
    usleep(pause);
    OK(ncclCommAbort(two[0]));
    CHECK(!pthread_join(waiting, &wrong));
    OK(ncclCommAbort(two[1]));
  }
  CHECK(!wrong);
}

// The text of NCCL4J_JAVA_HOME's error, at every call.
static void no_java(void) {
  ncclUniqueId id;
  REFUSED(ncclSystemError, "/nowhere", ncclGetUniqueId(&id));
  REFUSED(ncclSystemError, "/nowhere", ncclGroupStart());
}

static void no_classes(void) {
  ncclUniqueId id;
  REFUSED(ncclSystemError, "NCCL4J_CLASS_PATH", ncclGetUniqueId(&id));
}

// A class of the program's that has the name of nccl4j's fails when it is initialized.
static void broken_classes(void) {
  ncclUniqueId id;
  REFUSED(ncclSystemError, "not of nccl4j", ncclGetUniqueId(&id));
  REFUSED(ncclSystemError, "not of nccl4j", ncclGroupStart());
}

// As with NCCL, a level of the log that there is not is none.
static void wrong_level(void) { work(); }

// A file of settings that there is not, at every call.
static void no_settings(void) {
  ncclUniqueId id;
  REFUSED(ncclSystemError, "/nowhere", ncclGetUniqueId(&id));
  REFUSED(ncclInvalidArgument, "/nowhere", ncclCommInitAll(&comm, 1, NULL));
}

int main(int n, char** arguments) {
  struct {
    const char* name;
    void (*body)(void);
  } cases[] = {{"lazy", lazy},           {"fork-before", fork_before}, {"fork-after", fork_after},
                {"fork-during", fork_during}, {"fork-exit", fork_exit}, {"fork-locks", fork_locks}, {"other-folder", other_folder},
               {"left", left},           {"threads", many_threads},    {"signals", signals},
               {"late-handlers", late_handlers}, {"others-options", others_options}, {"others-variables", others_variables},
               {"others-variables-late", others_variables_late}, {"others-variables-changed", others_variables_changed},
               {"ends-inside", ends_inside}, {"at-exit", at_exit}, {"departs", departs}, {"aborts", aborts}, {"abort-inside", abort_inside}, {"far-peers", far_peers}, {"no-java", no_java},     {"no-classes", no_classes}, {"broken-classes", broken_classes}, {"NCCL_DEBUG", wrong_level}, {"NCCL_CONF_FILE", no_settings}};
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++)
    if (n == 2 && !strcmp(arguments[1], cases[i].name)) {
      cases[i].body();
      puts("all was right");
      return 0;
    }
  puts("no such case");
  return 1;
}
