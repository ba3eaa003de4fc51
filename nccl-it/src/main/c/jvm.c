// Starts a JVM in this process, or joins the one that is there, at the first call that needs it.
#define _GNU_SOURCE
#include "bridge.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct bridge bridge;

enum { PATH_BYTES = 4096, CLASS_PATH_BYTES = 1 << 16, MOST_OPTIONS = 64, START_STACK = 8 << 20 };
typedef jint Create(JavaVM**, void**, void*);
typedef jint Created(JavaVM**, jsize, jsize*);
typedef jint Defaults(void*);
enum { JNI_VERSION_OF_21 = 0x00150000 };  // in the headers of newer JDKs alone

// Written under the lock; `ready` publishes the others.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static JavaVM* vm;
static int ready;
static bool tried;
static bool joined;  // others may detach threads
static char obstacle[PATH_BYTES];

static pthread_key_t attached;
// Of a thread that was attached here, in this library's own JVM: others may detach theirs at any time.
static __thread JNIEnv* own;
static volatile sig_atomic_t forked;

// Destructors of the program's that come later may call NCCL: they attach the thread again.
static void detach(void* of) {
  own = NULL;
  if (!forked) (*(JavaVM*)of)->DetachCurrentThread(of);
}

// In the child, where the thread that called is alone: no other can end what it had begun, nor free a lock.
static void after_fork(void) {
  renew_errors();
  renew_parameters();
  if (tried) forked = 1;
  else pthread_mutex_init(&lock, NULL);
}

// Keeps the reason why there is no Java here; a long one is cut.
__attribute__((format(printf, 1, 2))) static bool refuse(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(obstacle, sizeof obstacle, format, arguments);
  va_end(arguments);
  return false;
}

// --- Where things are ----------------------------------------------------------------------------

// The folder that holds lib/libnccl.so.2; empty where it is not known.
static char root[PATH_BYTES];

// When the library is loaded: its path may begin in the folder that the program is in at that time.
static void find_root(void) {
  Dl_info self;
  if (!dladdr((void*)&bridge, &self) || !realpath(self.dli_fname, root)) root[0] = 0;
  for (int up = 0; up < 2; up++) {
    char* slash = strrchr(root, '/');
    if (slash) *slash = 0;
    else root[0] = 0;
  }
}

__attribute__((constructor)) static void load(void) {
  find_root();
  pthread_atfork(NULL, NULL, after_fork);
}

static bool is_set(const char* value) { return value && *value; }

static bool is_jvm(const char* home, const char* below, char* library) {
  snprintf(library, PATH_BYTES, "%s%s/lib/server/libjvm.so", home, below);
  return access(library, R_OK) == 0;
}

static bool find_jvm(char* library) {
  const char* chosen = getenv("NCCL4J_JAVA_HOME");
  if (is_set(chosen)) {
    if (is_jvm(chosen, "", library)) return true;
    return refuse("NCCL4J_JAVA_HOME is %s, where there is no lib/server/libjvm.so. Remedy: set it "
                  "to a Java runtime 17 or newer, or unset it", chosen);
  }
  if (is_jvm(root, "/jre", library)) return true;
  const char* home = getenv("JAVA_HOME");
  if (is_set(home) && is_jvm(home, "", library)) return true;
  return refuse("there is no Java runtime: neither %s/jre nor JAVA_HOME (%s) has "
                "lib/server/libjvm.so. Remedy: set NCCL4J_JAVA_HOME to a Java runtime 17 or newer",
                root, is_set(home) ? home : "not set");
}

static bool is_library(const char* name) {
  size_t length = strlen(name);
  return length > 4 && !strcmp(name + length - 4, ".jar") && !strstr(name, "-tests.jar") &&
         !strstr(name, "-sources.jar") && !strstr(name, "-javadoc.jar");
}

static int is_jar(const struct dirent* entry) { return is_library(entry->d_name); }

static int by_name(const struct dirent** a, const struct dirent** b) {
  return strcmp((*a)->d_name, (*b)->d_name);
}

// In the order of their names, in which the script nccl archives their classes.
static void add_jars(char* path, const char* folder) {
  char name[PATH_BYTES];
  snprintf(name, sizeof name, "%s%s", root, folder);
  struct dirent** all;
  int n = scandir(name, &all, is_jar, by_name);
  if (n < 0) return;
  for (int i = 0; i < n; i++) {
    size_t length = strlen(path);
    snprintf(path + length, CLASS_PATH_BYTES - length, "%s%s/%s", length ? ":" : "", name,
             all[i]->d_name);
    free(all[i]);
  }
  free(all);
}

// In an archive the jars are in modules; in a build this module's own is beside that folder.
static bool find_classes(char* path) {
  const char* chosen = getenv("NCCL4J_CLASS_PATH");
  path[0] = 0;
  if (is_set(chosen)) {
    snprintf(path, CLASS_PATH_BYTES, "%s", chosen);
    return true;
  }
  add_jars(path, "/modules");
  if (path[0]) add_jars(path, "");
  return path[0] || refuse("there are no jars in %s/modules. Remedy: keep libnccl.so.2 in the "
                           "archive's lib folder, or set NCCL4J_CLASS_PATH", root);
}

// The archive of nccl4j's classes, which `nccl with` makes; the JVM ignores one that does not fit.
static bool find_archived_classes(const char* jvm, char* option) {
  static const char OPTION[] = "-XX:SharedArchiveFile=";
  size_t length = strlen(root);
  if (is_set(getenv("NCCL4J_CLASS_PATH")) || strncmp(jvm, root, length) || jvm[length] != '/')
    return false;
  snprintf(option, PATH_BYTES, "%s%s/lib/nccl4j.jsa", OPTION, root);
  return access(option + strlen(OPTION), R_OK) == 0;
}

// --- Environment ---------------------------------------------------------------------------------

// Variables with options that a JVM takes, and says so on the standard error. They are meant for the
// programs in Java that the program starts; NCCL_JAVA_OPTIONS has those of the library's JVM.
static const char* const OTHERS_OPTIONS[] = {"JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"};
enum { N_OTHERS_OPTIONS = sizeof OTHERS_OPTIONS / sizeof *OTHERS_OPTIONS };

// Names the signal by which the JVM suspends threads, else SIGUSR2, which programs use.
static const char SUSPENSION[] = "_JAVA_SR_SIGNUM";

// A real-time signal that the program has no handler for; 0 if there is none. SIGRTMAX - 2 is that of the
// JDK's sockets.
static int free_signal(void) {
  struct sigaction found;
  for (int number = SIGRTMAX - 1; number > SIGRTMIN; number--)
    if (number != SIGRTMAX - 2 && !sigaction(number, NULL, &found) && found.sa_handler == SIG_DFL)
      return number;
  return 0;
}

// The program's threads read the environment, also while a JVM is created. So that environment stays as it is,
// and the JVM gets another array of the same variables, which is never freed: a thread may still read it.
struct environment {
  char** program;  // the program's array
  char** jvm;      // the JVM's; NULL if there is no memory
  char** copy;     // of the JVM's as it was made
  size_t bytes;    // of each
  char* options[N_OTHERS_OPTIONS];  // entries that the JVM's does not have; NULL where there is none
  bool names_signal;  // true if the JVM's alone has SUSPENSION
};

static bool is_of(const char* entry, const char* name) {
  size_t length = strlen(name);
  return !strncmp(entry, name, length) && entry[length] == '=';
}

static bool is_left_out(struct environment* set, char* entry) {
  for (int i = 0; i < N_OTHERS_OPTIONS; i++)
    if (is_of(entry, OTHERS_OPTIONS[i])) {
      set->options[i] = entry;
      return true;
    }
  return false;
}

// Sets the environment for the creation of a JVM; returns what put_back needs.
static struct environment put_aside(void) {
  static char suspension[32];
  struct environment set = {.program = environ};
  size_t all = 0, n = 0;
  while (set.program && set.program[all]) all++;
  set.bytes = (all + 2) * sizeof(char*);
  set.jvm = calloc(1, set.bytes);
  set.copy = malloc(set.bytes);
  if (!set.jvm || !set.copy) {
    free(set.jvm);
    free(set.copy);
    set.jvm = NULL;
    return set;
  }
  for (size_t i = 0; i < all; i++)
    if (!is_left_out(&set, set.program[i])) set.jvm[n++] = set.program[i];
  int signal = getenv(SUSPENSION) ? 0 : free_signal();
  snprintf(suspension, sizeof suspension, "%s=%d", SUSPENSION, signal);
  set.names_signal = signal != 0;
  if (signal) set.jvm[n] = suspension;
  memcpy(set.copy, set.jvm, set.bytes);
  __atomic_store_n(&environ, set.jvm, __ATOMIC_RELEASE);
  return set;
}

static bool is_changed(const struct environment* set) { return memcmp(set->jvm, set->copy, set->bytes) != 0; }

static bool has_name(char** entries, const char* name) {
  while (*entries && !is_of(*entries, name)) entries++;
  return *entries;
}

static bool has(char** entries, const char* entry) {
  while (*entries && *entries != entry) entries++;
  return *entries;
}

// Changes of the JVM's array, which are changed values and variables that have gone, are made in the program's too.
static void carry_over(const struct environment* set) {
  for (char** each = set->copy; *each; each++) {
    char* name = strndup(*each, strcspn(*each, "="));
    if (name && !has_name(set->jvm, name)) unsetenv(name);
    free(name);
  }
  for (char** each = set->jvm; *each; each++) {
    const char* equals = strchr(*each, '=');
    if (!equals || has(set->copy, *each)) continue;
    char* name = strndup(*each, equals - *each);
    if (name) setenv(name, equals + 1, /* overwrite= */ 1);
    free(name);
  }
}

// The program's array again, unless the program has set variables meanwhile: then they are in another array, which
// lacks the program's options. A thread that has read environ before may also store another array afterwards, or
// write into the JVM's.
static void put_back(struct environment* set) {
  if (!set->jvm) return;
  char** expected = set->jvm;
  bool is_unchanged = environ == set->jvm && !is_changed(set);
  is_unchanged = is_unchanged && __atomic_compare_exchange_n(&environ, &expected, set->program, false, __ATOMIC_RELEASE,
                                                             __ATOMIC_RELAXED);
  unsetenv("NCCL4J_NONE");  // waits for the C library's lock: nobody writes into the JVM's array afterwards
  if (!is_unchanged || __atomic_load_n(&environ, __ATOMIC_RELAXED) != set->program) {
    if (set->names_signal) unsetenv(SUSPENSION);
    for (int i = 0; i < N_OTHERS_OPTIONS; i++)
      if (set->options[i]) setenv(OTHERS_OPTIONS[i], strchr(set->options[i], '=') + 1, /* overwrite= */ 0);
  } else if (is_changed(set)) {
    carry_over(set);
  }
  free(set->copy);
}

// --- Start ---------------------------------------------------------------------------------------

struct start {
  Create* create;
  JavaVMInitArgs arguments;
  jint result;
  struct sigaction child;  // the program's, before
  sem_t created;
  pthread_t thread;
  bool runs;
};

// The JDK's class of processes sets SIGCHLD to its default when it is first used, which JDK 25 does
// without starting one. So it is initialized here, as FindClass does, and the program's handler put
// back.
static void keep_child_handler(JNIEnv* env, const struct sigaction* program) {
  (*env)->FindClass(env, "java/lang/ProcessImpl");
  (*env)->ExceptionClear(env);
  sigaction(SIGCHLD, program, NULL);
}

// Initializes what the program's thread needs next, while that thread reads the settings.
static void prepare(JNIEnv* env) {
  jclass sockets = (*env)->FindClass(env, "org/nccl4j/it/abi/SocketsAhead");
  jmethodID initialize =
      sockets ? (*env)->GetStaticMethodID(env, sockets, "initialize", "()V") : NULL;
  if (initialize) (*env)->CallStaticVoidMethod(env, sockets, initialize);
  (*env)->ExceptionClear(env);
}

// On a thread of its own, so that no thread of the program's is the JVM's first.
static void* create(void* given) {
  struct start* start = given;
  JNIEnv* env;
  start->result = start->create(&vm, (void**)&env, &start->arguments);
  bool created = start->result == JNI_OK;
  sem_post(&start->created);
  if (!created) return NULL;
  keep_child_handler(env, &start->child);
  prepare(env);
  (*vm)->DetachCurrentThread(vm);
  return NULL;
}

static void create_on_thread(struct start* start) {
  // The JVM's threads take no signal that is meant for the program's.
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGBUS);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  sigdelset(&all, SIGTRAP);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, START_STACK);
  sigaction(SIGCHLD, NULL, &start->child);
  sem_init(&start->created, 0, 0);
  start->result = JNI_ERR;
  start->runs = !pthread_create(&start->thread, &attributes, create, start);
  while (start->runs && sem_wait(&start->created)) continue;  // a handler of the program's ran
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static int add_user_options(JavaVMOption* options, int n, char* words) {
  for (char* word = strtok_r(words, " ", &words); word && n < MOST_OPTIONS;
       word = strtok_r(NULL, " ", &words))
    options[n++].optionString = word;
  return n;
}

// JVMs from 22 on warn of libraries that Java loads. To 17 the option means nothing, and with it it
// sets up its modules anew instead of taking them from its archive.
static bool may_warn_of_native_access(void* jvm) {
  JavaVMInitArgs arguments = {.version = JNI_VERSION_OF_21};
  Defaults* defaults = (Defaults*)dlsym(jvm, "JNI_GetDefaultJavaVMInitArgs");
  return defaults && defaults(&arguments) == JNI_OK;
}

// Waits for the end of the thread that has created the JVM.
static void end_thread(struct start* start) {
  if (start->runs) pthread_join(start->thread, NULL);
  sem_destroy(&start->created);
}

// Methods that are compiled after a part of the calls that others are.
#define OFTEN(class) "-XX:CompileCommand=CompileThresholdScaling,org.nccl4j." class "::*,0.1"
// Methods that are compiled with those that call them, however large they are.
#define INLINED(method) "-XX:CompileCommand=inline,org.nccl4j." method

static bool start_jvm(struct start* start) {
  static char library[PATH_BYTES], class_path[CLASS_PATH_BYTES + 32], words[PATH_BYTES];
  static char archived[PATH_BYTES];
  strcpy(class_path, "-Djava.class.path=");
  if (!find_jvm(library) || !find_classes(class_path + strlen(class_path))) return false;
  void* jvm = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  Create* make = jvm ? (Create*)dlsym(jvm, "JNI_CreateJavaVM") : NULL;
  if (!make) return refuse("%s cannot be loaded: %s", library, dlerror());
  // At a process's end libjvm.so destroys its static objects first, and functions of the program's
  // that call NCCL run after that. Collections of the other collectors use such objects; G1's do
  // not. Its generation of new objects has room for what a communicator's creation allocates, so that
  // no collection stops the calls behind it, and neither does a regular safepoint. What the warm-up
  // has called often enough is compiled, also if many methods wait for the compiler, and if the
  // program calls them later. The quick compiler's code then stays for thousands of calls: if the
  // optimizing compiler replaced a method at the end of the warm-up, which calls the JDK's small
  // methods 100,000 times, the program's first calls would look it up anew. Methods that one call
  // enters once or twice reach the optimizing compiler after a tenth of its threshold. The quick
  // compiler's code asks every 8,192 calls, and there every 512, whether it is time for the optimizing
  // one: asked every 64, forty methods of a call would often ask in one and the same call.
  JavaVMOption options[MOST_OPTIONS] = {
      {class_path, NULL},
      {"-Dnccl4j.jvm.own=true", NULL},
      {"-Djava.util.logging.SimpleFormatter.format=nccl4j %4$s %5$s%6$s%n", NULL},
      {"-Djava.awt.headless=true", NULL},
      {"-Xrs", NULL},
      {"-Xshare:auto", NULL},
      {"-Xms64m", NULL},
      {"-Xmx512m", NULL},
      {"-XX:+UseG1GC", NULL},
      {"-XX:NewSize=32m", NULL},
      {"-XX:ParallelGCThreads=1", NULL},
      {"-XX:ConcGCThreads=1", NULL},
      {"-XX:+UnlockDiagnosticVMOptions", NULL},
      {"-XX:GuaranteedSafepointInterval=0", NULL},
      {"-XX:Tier3LoadFeedback=300", NULL},
      {"-XX:TieredCompileTaskTimeout=60000", NULL},
      {"-XX:Tier3DelayOn=1000000", NULL},
      {"-XX:Tier3InvokeNotifyFreqLog=13", NULL},
      {"-XX:Tier4InvocationThreshold=200000", NULL},
      {"-XX:Tier4CompileThreshold=200000", NULL},
      {"-XX:CompileCommand=quiet", NULL},
      {OFTEN("it.abi.Entry"), NULL},
      {OFTEN("it.abi.RankHandle"), NULL},
      {OFTEN("api.Communicator"), NULL},
      {OFTEN("api.group.OperationDispatcher"), NULL},
      {OFTEN("api.group.GroupLauncher"), NULL},
      {OFTEN("api.launch.Launcher"), NULL},
      {OFTEN("api.plan.Planner"), NULL},
      {OFTEN("device.cuda.CudaKernelCommunicator"), NULL},
      {OFTEN("device.cuda.plan.CudaKernelPlan"), NULL},
      {OFTEN("device.cuda.driver.DriverLibrary"), NULL},
      // The mark that a launch makes every 10 ms, too seldom to be compiled by itself.
      {INLINED("device.cuda.stream.LaunchEvents::markLaunch"), NULL},
      {INLINED("device.cuda.stream.LaunchEvents::record"), NULL},
      {"-XX:-UsePerfData", NULL},
      {"-Xlog:disable", NULL}};
  int n = 0;
  while (options[n].optionString) n++;
  if (may_warn_of_native_access(jvm))
    options[n++].optionString = "--enable-native-access=ALL-UNNAMED";
  if (find_archived_classes(library, archived)) options[n++].optionString = archived;
  const char* chosen = getenv("NCCL_JAVA_OPTIONS");
  snprintf(words, sizeof words, "%s", chosen ? chosen : "");
  n = add_user_options(options, n, words);
  start->create = make;
  start->arguments = (JavaVMInitArgs){JNI_VERSION_1_8, n, options, JNI_FALSE};
  struct environment set = put_aside();
  create_on_thread(start);
  put_back(&set);
  if (start->result == JNI_OK) return true;
  end_thread(start);
  return refuse("the JVM of %s does not start (JNI_CreateJavaVM gave %d). Remedy: see that there is "
                "memory, and that NCCL_JAVA_OPTIONS are options of that JVM", library, start->result);
}

// The JVM that the process has, if it has one.
static bool join_jvm(void) {
  Created* list = (Created*)dlsym(RTLD_DEFAULT, "JNI_GetCreatedJavaVMs");
  if (!list) {
    void* loaded = dlopen("libjvm.so", RTLD_NOW | RTLD_NOLOAD);
    list = loaded ? (Created*)dlsym(loaded, "JNI_GetCreatedJavaVMs") : NULL;
  }
  jsize n = 0;
  return list && list(&vm, 1, &n) == JNI_OK && n > 0;
}

// --- Classes -------------------------------------------------------------------------------------

static const char ENTRY[] = "org/nccl4j/it/abi/Entry";

// In a JVM that knows nothing of nccl4j: a loader of the archive's jars.
static jclass load_entry(JNIEnv* env) {
  static char path[CLASS_PATH_BYTES];
  if (!find_classes(path)) return NULL;
  jclass url_class = (*env)->FindClass(env, "java/net/URL");
  jclass file_class = (*env)->FindClass(env, "java/io/File");
  jclass uri_class = (*env)->FindClass(env, "java/net/URI");
  jclass loader_class = (*env)->FindClass(env, "java/net/URLClassLoader");
  jmethodID make_file = (*env)->GetMethodID(env, file_class, "<init>", "(Ljava/lang/String;)V");
  jmethodID to_uri = (*env)->GetMethodID(env, file_class, "toURI", "()Ljava/net/URI;");
  jmethodID to_url = (*env)->GetMethodID(env, uri_class, "toURL", "()Ljava/net/URL;");
  jmethodID make = (*env)->GetMethodID(env, loader_class, "<init>", "([Ljava/net/URL;)V");
  jmethodID load = (*env)->GetMethodID(env, loader_class, "loadClass",
                                       "(Ljava/lang/String;)Ljava/lang/Class;");
  int n = 1;
  for (char* at = path; *at; at++) n += *at == ':';
  jobjectArray urls = (*env)->NewObjectArray(env, n, url_class, NULL);
  char* rest = path;
  for (int i = 0; i < n && !(*env)->ExceptionCheck(env); i++) {
    jstring name = (*env)->NewStringUTF(env, strsep(&rest, ":"));
    jobject file = (*env)->NewObject(env, file_class, make_file, name);
    jobject uri = (*env)->CallObjectMethod(env, file, to_uri);
    (*env)->SetObjectArrayElement(env, urls, i, (*env)->CallObjectMethod(env, uri, to_url));
  }
  jobject loader = (*env)->NewObject(env, loader_class, make, urls);
  jstring name = (*env)->NewStringUTF(env, "org.nccl4j.it.abi.Entry");
  if ((*env)->ExceptionCheck(env)) return NULL;
  return (*env)->CallObjectMethod(env, loader, load, name);
}

// Appends what an object says of itself, behind some words if there is text already.
static void append_text(JNIEnv* env, jobject of, const char* words, char* text, size_t bytes) {
  jmethodID to_string = (*env)->GetMethodID(env, (*env)->GetObjectClass(env, of), "toString",
                                            "()Ljava/lang/String;");
  jstring said = to_string ? (*env)->CallObjectMethod(env, of, to_string) : NULL;
  const char* letters = said ? (*env)->GetStringUTFChars(env, said, NULL) : NULL;
  size_t length = strlen(text);
  if (letters) snprintf(text + length, bytes - length, "%s%s", length ? words : "", letters);
  if (letters) (*env)->ReleaseStringUTFChars(env, said, letters);
  (*env)->ExceptionClear(env);
}

// Clears the exception that was thrown, if there is one, and appends what it and its causes say.
static void take_exception(JNIEnv* env, char* text, size_t bytes) {
  enum { MOST_CAUSES = 8 };
  jthrowable thrown = (*env)->ExceptionOccurred(env);
  (*env)->ExceptionClear(env);
  for (int causes = 0; thrown && causes < MOST_CAUSES; causes++) {
    append_text(env, thrown, causes ? ", caused by " : "; then ", text, bytes);
    jmethodID cause = (*env)->GetMethodID(env, (*env)->GetObjectClass(env, thrown), "getCause",
                                          "()Ljava/lang/Throwable;");
    thrown = cause ? (*env)->CallObjectMethod(env, thrown, cause) : NULL;
    (*env)->ExceptionClear(env);
  }
}

// The first error tells why the class cannot be used: later ones say no more than that it was one.
static bool bind(JNIEnv* env) {
  char cause[1024] = "";
  jclass found = (*env)->FindClass(env, ENTRY);
  if (!found) {
    take_exception(env, cause, sizeof cause);
    found = load_entry(env);
  }
  if ((*env)->ExceptionCheck(env) || !found) {
    take_exception(env, cause, sizeof cause);
    if (obstacle[0]) return false;
    return refuse("%s cannot be loaded (%s). Remedy: use the archive as it was packed, or set "
                  "NCCL4J_CLASS_PATH to the jars of nccl4j", ENTRY, cause);
  }
  bridge.entry = (*env)->NewGlobalRef(env, found);
#define M(name, signature) \
  bridge.m_##name = (*env)->GetStaticMethodID(env, found, #name, signature);
  METHODS(M)
#undef M
  if ((*env)->ExceptionCheck(env)) {
    take_exception(env, cause, sizeof cause);
    return refuse("the classes of nccl4j do not fit %s/lib/libnccl.so.2 (%s). Remedy: use both from "
                  "one archive", root, cause);
  }
  return true;
}

// --- Threads -------------------------------------------------------------------------------------

static JNIEnv* attach(void) {
  JNIEnv* env;
  if ((*vm)->GetEnv(vm, (void**)&env, JNI_VERSION_1_8) == JNI_OK) return env;
  if ((*vm)->AttachCurrentThreadAsDaemon(vm, (void**)&env, NULL) != JNI_OK) return NULL;
  pthread_setspecific(attached, vm);
  return env;
}

static bool attach_and_bind(void) {
  pthread_key_create(&attached, detach);
  JNIEnv* env = attach();
  if (!env || (*env)->PushLocalFrame(env, 1024)) return refuse("the JVM takes no thread");
  bool bound = bind(env);
  (*env)->PopLocalFrame(env, NULL);
  return bound;
}

static bool begin(void) {
  struct start start;
  if (!root[0]) return refuse("the folder of libnccl.so.2 is not known. Remedy: load it by a path that exists");
  joined = join_jvm();
  if (joined) return attach_and_bind();
  if (start_jvm(&start)) {
    bool bound = attach_and_bind();
    end_thread(&start);
    return bound;
  }
  // A process has one JVM: another thread of the program's may have made it meanwhile.
  joined = join_jvm();
  if (!joined) return false;
  obstacle[0] = 0;
  return attach_and_bind();
}

static void begin_once(void) {
  pthread_mutex_lock(&lock);
  if (!tried) {
    tried = true;
    bool begun = begin();
    __atomic_store_n(&ready, begun ? 1 : -1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&lock);
}

static JNIEnv* enter_slowly(void) {
  if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) begin_once();
  if (__atomic_load_n(&ready, __ATOMIC_ACQUIRE) < 0) {
    fail(ncclSystemError, "%s", obstacle);
    return NULL;
  }
  JNIEnv* env = attach();
  if (!env) fail(ncclSystemError, "the JVM takes no more threads. Remedy: raise ulimit -u");
  if (!joined && pthread_getspecific(attached)) own = env;
  return env;
}

JNIEnv* enter(void) {
  if (__builtin_expect(forked, 0)) {
    fail(ncclSystemError,
         "this process was forked from one that had used NCCL, and a JVM does not survive a fork. "
         "Remedy: fork before the first call of NCCL, or start new processes (in Python: the start "
         "method spawn)");
    return NULL;
  }
  return __builtin_expect(own != NULL, 1) ? own : enter_slowly();
}

bool is_running(void) { return !forked && __atomic_load_n(&ready, __ATOMIC_ACQUIRE) == 1; }

JNIEnv* enter_frame(void) {
  JNIEnv* env = enter();
  if (env && (*env)->PushLocalFrame(env, 32)) {
    (*env)->ExceptionClear(env);
    fail(ncclSystemError, "the JVM has no memory for a call. Remedy: raise -Xmx in NCCL_JAVA_OPTIONS");
    return NULL;
  }
  return env;
}

void leave_frame(JNIEnv* env) { (*env)->PopLocalFrame(env, NULL); }

// --- The end of the process ----------------------------------------------------------------------

enum { MOST_SECONDS_TO_DEPART = 2 };

static void* depart(void* unused) {
  (void)unused;
  JNIEnv* env = enter();
  if (env) CALL(env, Int, depart);
  return NULL;
}

// The other ranks are told that this one leaves, or they would take it for dead. A JVM of the
// program's ends by itself. On a thread of its own, so that the process ends in any case.
__attribute__((destructor)) static void end(void) {
  if (joined || !is_running()) return;
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += MOST_SECONDS_TO_DEPART;
  pthread_t thread;
  if (!pthread_create(&thread, NULL, depart, NULL)) pthread_timedjoin_np(thread, NULL, &end);
}
