// Configurations of communicators, and the current GPU.
#define _GNU_SOURCE
#include "config.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>

// A field exists if the program was compiled against a version that has it. The size does not tell:
// a new field may lie where an old structure ends in padding.
#define HAS(since, field) \
  (from->version >= (since) && from->size >= offsetof(ncclConfig_t, field) + sizeof from->field)

// Fields without effect or with a greatest value, and the values that NCCL takes.
static const struct {
  const char* name;
  size_t at;
  unsigned since;
  int least, most;
} CHECKED[] = {
#define FIELD(name) #name, offsetof(ncclConfig_t, name)
    {FIELD(splitShare), 21800, 0, 1},
    {FIELD(collnetEnable), 22700, 0, 1},
    {FIELD(shrinkShare), 22700, 0, 1},
    {FIELD(nChannelsPerNetPeer), 22800, 1, 64},
    {FIELD(nvlinkCentricSched), 22800, 0, 1},
    {FIELD(graphUsageMode), 22900, 0, 2},
    {FIELD(numRmaCtx), 22900, 0, INT_MAX},
    {FIELD(maxP2pPeers), 23000, 1, INT_MAX},
    {FIELD(graphStreamOrdering), 23005, 0, 1},
#undef FIELD
};

static ncclResult_t check_fields(const ncclConfig_t* from) {
  for (size_t i = 0; i < sizeof CHECKED / sizeof *CHECKED; i++) {
    if (from->version < CHECKED[i].since || from->size < CHECKED[i].at + sizeof(int)) continue;
    int value = *(const int*)((const char*)from + CHECKED[i].at);
    if (value == UNDEFINED || (value >= CHECKED[i].least && value <= CHECKED[i].most)) continue;
    return fail_group(fail(ncclInvalidArgument, "%s of a configuration is %d. Remedy: set %d to %d, or "
                           "NCCL_CONFIG_UNDEF_INT", CHECKED[i].name, value, CHECKED[i].least,
                           CHECKED[i].most));
  }
  return ncclSuccess;
}

ncclResult_t read_config(JNIEnv* env, const ncclConfig_t* from, struct config* into) {
  jint numbers[CONFIG_FIELDS];
  for (int i = 0; i < CONFIG_FIELDS; i++) numbers[i] = UNDEFINED;
  const char* names[2] = {NULL, NULL};
  if (from) {
    if (from->magic != (unsigned)CONFIG_MAGIC)
      return fail_group(fail(ncclInvalidArgument, "a configuration has the magic number 0x%x. Remedy: "
                             "initialize it with NCCL_CONFIG_INITIALIZER", from->magic));
    ncclResult_t result = check_fields(from);
    if (result) return result;
    if (HAS(21400, blocking)) numbers[BLOCKING] = from->blocking;
    if (HAS(21700, netName)) {
      numbers[CGA_CLUSTER_SIZE] = from->cgaClusterSize;
      numbers[MIN_CTAS] = from->minCTAs;
      numbers[MAX_CTAS] = from->maxCTAs;
      names[0] = from->netName;
    }
    if (HAS(22500, trafficClass)) numbers[TRAFFIC_CLASS] = from->trafficClass;
    if (HAS(22500, commName)) names[1] = from->commName;
    if (HAS(22700, nvlsCTAs)) {
      numbers[CTA_POLICY] = from->CTAPolicy;
      numbers[NVLS_CTAS] = from->nvlsCTAs;
    }
    if (HAS(22800, nChannelsPerNetPeer)) numbers[CHANNELS_PER_NET_PEER] = from->nChannelsPerNetPeer;
  }
  into->numbers = from ? (*env)->NewIntArray(env, CONFIG_FIELDS) : NULL;
  into->names = (*env)->NewObjectArray(env, 2, (*env)->FindClass(env, "java/lang/String"), NULL);
  into->made = (*env)->NewLongArray(env, 1);
  if ((*env)->ExceptionCheck(env)) return result_of(env, ncclSystemError);
  if (from) (*env)->SetIntArrayRegion(env, into->numbers, 0, CONFIG_FIELDS, numbers);
  for (int i = 0; i < 2; i++)
    if (names[i])
      (*env)->SetObjectArrayElement(env, into->names, i, (*env)->NewStringUTF(env, names[i]));
  return ncclSuccess;
}

typedef int GetDevice(int*);
static GetDevice *of_driver, *of_runtime;

static void find_cuda(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver) of_driver = (GetDevice*)dlsym(driver, "cuCtxGetDevice");
}

// cudaSetDevice makes a context since CUDA 12; the runtime is asked where there is none yet.
int current_gpu(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_cuda);
  int gpu = 0;
  if (of_driver && of_driver(&gpu) == 0) return gpu;
  of_runtime = (GetDevice*)dlsym(RTLD_DEFAULT, "cudaGetDevice");
  return of_runtime && of_runtime(&gpu) == 0 ? gpu : 0;
}
