// A libcuda.so.1 for tests without a GPU: records every call with its arguments, keeps count of what
// lives, and fails the call that a test names. "Device" memory is the host's. Compiled against the
// real cuda.h, so its signatures are the driver's.
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char record[1 << 20];
static size_t recorded;
static char failing[64];
static int failure;
static int version = 13000;
static int wide_operations = 1;
static int n_kept;  // memory operations of streams that wait
static int corrupting; // what copies in streams move arrives changed
static int lacking;    // an attribute that no device has
static int capturing;  // what a stream answers who asks
static size_t granule = 2 << 20;  // the least of multicast objects: FAKECUDA_MULTICAST_GRANULE
static int failing_number;  // of the calls that begin with cuM, from 1; 0 for none
static long live;  // allocations, handles, reservations, mappings, streams, events, graphs
static unsigned long long next_handle = 0x1000;
static _Thread_local CUcontext current;
static _Thread_local int called_by_stream;  // where the driver allows no call
static unsigned char arguments[112];
static void forget_captures(void);

// The tests' own entries.
const char* fakeRecord(void) { return record; }
long fakeLive(void) { return live; }
void fakeArguments(void* to) { memcpy(to, arguments, sizeof arguments); }
void fakeReset(void) {
  pthread_mutex_lock(&lock);
  recorded = 0;
  record[0] = 0;
  failing[0] = 0;
  failing_number = 0;
  version = 13000;
  granule = 2 << 20;
  capturing = 0;
  lacking = 0;
  corrupting = 0;
  wide_operations = 1;
  n_kept = 0;
  forget_captures();
  pthread_mutex_unlock(&lock);
}
// Lets the n-th call from now on that begins with cuM fail, and no other.
void fakeFailNth(int n, int code) {
  failing_number = n;
  failure = code;
}
void fakeCorrupt(int on) { corrupting = on; }
void fakeLack(int attribute) { lacking = attribute; }
void fakeGranule(long bytes) { granule = bytes; }
void fakeWideOperations(int on) { wide_operations = on; }
void fakeCapturing(int on) { capturing = on; }
void fakeFail(const char* call, int code) {
  snprintf(failing, sizeof failing, "%s", call);
  failure = code;
}

// For processes that have the fake in the driver's place: FAKECUDA_FAIL=function:code, and what was
// called goes to the file FAKECUDA_RECORD at the end.
__attribute__((constructor)) static void begin(void) {
  const char* fail = getenv("FAKECUDA_FAIL");
  const char* colon = fail ? strchr(fail, ':') : NULL;
  const char* bytes = getenv("FAKECUDA_MULTICAST_GRANULE");
  if (bytes) granule = atol(bytes);
  if (colon) {
    snprintf(failing, sizeof failing, "%.*s", (int)(colon - fail), fail);
    failure = atoi(colon + 1);
  }
}
__attribute__((destructor)) static void end(void) {
  const char* name = getenv("FAKECUDA_RECORD");
  FILE* file = name ? fopen(name, "w") : NULL;
  if (file) {
    fputs(record, file);
    fclose(file);
  }
}

// Records a call; the result that it should have.
static CUresult call(long lives, const char* name, const char* format, ...) {
  pthread_mutex_lock(&lock);
  va_list list;
  va_start(list, format);
  int n = snprintf(record + recorded, sizeof record - recorded, "%s(", name);
  n += vsnprintf(record + recorded + n, sizeof record - recorded - n, format, list);
  n += snprintf(record + recorded + n, sizeof record - recorded - n, ")\n");
  va_end(list);
  if (recorded + n < sizeof record - 4096) recorded += n;
  int nth = failing_number > 0 && strncmp(name, "cuM", 3) == 0 && --failing_number == 0;
  if (called_by_stream && recorded < sizeof record - 4096)
    recorded += snprintf(record + recorded, 4096, "misuse:%s in a function of a stream\n", name);
  CUresult result = nth || strcmp(failing, name) == 0 ? (CUresult)failure : CUDA_SUCCESS;
  if (called_by_stream) result = CUDA_ERROR_NOT_PERMITTED;
  if (result == CUDA_SUCCESS) live += lives;
  pthread_mutex_unlock(&lock);
  return result;
}
static unsigned long long handle(void) { return next_handle += 0x10; }

#define NO 0, __func__
#define NEW 1, __func__
#define GONE -1, __func__
#define OR_FAIL(...)                   \
  do {                                 \
    CUresult result = call(__VA_ARGS__); \
    if (result) return result;         \
  } while (0)
typedef unsigned long long u64;

// Captures. What a driver refuses while streams are captured spoils the capture, here too: calls that
// wait for or ask about a captured stream, and, of a thread that has not said otherwise, calls that
// may wait for everything.
typedef struct {
  CUstream stream, origin;  // who began the capture; itself if it did
  CUstreamCaptureMode mode;
  pthread_t thread;
  int spoilt, joined;
} Captured;
static Captured captured[64];
static struct {
  CUevent event;
  CUstream stream, origin;  // where it was recorded last, in which capture
} recordings[256];
static int n_recordings;
static _Thread_local CUstreamCaptureMode mode_of_thread = CU_STREAM_CAPTURE_MODE_GLOBAL;

static Captured* captureOf(CUstream t) {
  for (int i = 0; i < 64; i++)
    if (captured[i].stream && captured[i].stream == t) return &captured[i];
  return NULL;
}
static void spoil(CUstream origin) {
  for (int i = 0; i < 64; i++)
    if (captured[i].stream && captured[i].origin == origin) captured[i].spoilt = 1;
}
static void drop_capture(CUstream origin) {
  for (int i = 0; i < 64; i++)
    if (captured[i].stream && captured[i].origin == origin) captured[i].stream = NULL;
}
static CUresult forbidden(CUstream origin, const char* name) {
  spoil(origin);
  recorded += snprintf(record + recorded, 256, "misuse:%s during a capture\n", name);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}
// For calls about a stream that wait or look.
static CUresult look(CUstream t, const char* name) {
  pthread_mutex_lock(&lock);
  Captured* c = captureOf(t);
  CUresult result = c ? forbidden(c->origin, name) : CUDA_SUCCESS;
  pthread_mutex_unlock(&lock);
  return result;
}
// For calls that may wait for everything.
static CUresult unsafe(const char* name) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64; i++) {
    Captured* c = &captured[i];
    if (!c->stream || c->stream != c->origin) continue;
    int mine = pthread_equal(c->thread, pthread_self()) && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
               mode_of_thread != CU_STREAM_CAPTURE_MODE_RELAXED;
    int of_another = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                     mode_of_thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mine || of_another) result = forbidden(c->origin, name);
  }
  pthread_mutex_unlock(&lock);
  return result;
}
// Something is launched into a stream: a forked one must be joined after it.
static void launched_into(CUstream t) {
  pthread_mutex_lock(&lock);
  Captured* c = captureOf(t);
  if (c) c->joined = 0;
  pthread_mutex_unlock(&lock);
}
#define LOOK(t)                          \
  do {                                   \
    CUresult looked = look(t, __func__); \
    if (looked) return looked;           \
  } while (0)
#define UNSAFE()                       \
  do {                                 \
    CUresult looked = unsafe(__func__); \
    if (looked) return looked;         \
  } while (0)
static void forget_captures(void) {
  memset(captured, 0, sizeof captured);
  n_recordings = 0;
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  CUstreamCaptureMode before = mode_of_thread;
  mode_of_thread = *mode;
  *mode = before;
  return CUDA_SUCCESS;
}

CUresult cuInit(unsigned f) { return call(NO, "%u", f); }
void fakeVersion(int v) { version = v; }
CUresult cuDriverGetVersion(int* v) { *v = version; return call(NO, ""); }
CUresult cuDeviceGetCount(int* n) { *n = 2; return call(NO, ""); }
CUresult cuDeviceGet(CUdevice* d, int i) { *d = i; return call(NO, "%d", i); }
CUresult cuDeviceGetName(char* s, int n, CUdevice d) {
  snprintf(s, n, "Fake GPU %d", d);
  return call(NO, "%d", d);
}
// FAKECUDA_LACKS names an attribute by its number: no device has that.
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice d) {
  const char* lacks = getenv("FAKECUDA_LACKS");
  *v = (lacks && atoi(lacks) == (int)a) || lacking == (int)a ? 0
       : a == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? 9
       : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? 0
       : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? 132
       : a == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED    ? 1
       : a == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS ? wide_operations
                                                         : 0;
  return call(NO, "%d,%d", a, d);
}
CUresult cuDeviceGetPCIBusId(char* s, int n, CUdevice d) {
  snprintf(s, n, "0000:0%d:00.0", d + 1);
  return call(NO, "%d", d);
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  *can = getenv("FAKECUDA_NO_PEERS") == NULL;
  return call(NO, "%d,%d", a, b);
}
CUresult cuDeviceGetP2PAttribute(int* v, CUdevice_P2PAttribute p, CUdevice a, CUdevice b) {
  *v = 1;
  return call(NO, "%d,%d,%d", p, a, b);
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
  *c = (CUcontext)(u64)(0xc000 + d);
  return call(NO, "%d", d);
}
CUresult cuCtxGetCurrent(CUcontext* c) { *c = current; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { current = c; return call(NO, "%llx", (u64)c); }
CUresult cuMemGetInfo(size_t* f, size_t* t) { *f = 1000; *t = 2000; return call(NO, ""); }
// What cuMemAlloc and cuMemHostAlloc gave, for who asks about an address. Whole blocks of a device
// are files in memory, so that other processes can map them.
#define BLOCK (2 << 20)
static struct {
  CUdeviceptr at;
  size_t size;
  int type, device, fd;
} known[4096];
static void* know(size_t n, CUmemorytype type) {
  int blocks = type == CU_MEMORYTYPE_DEVICE && n && n % BLOCK == 0;
  int fd = blocks ? memfd_create("fake", MFD_CLOEXEC) : -1;
  if (blocks && ftruncate(fd, n)) return NULL;
  void* p = blocks ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : calloc(1, n);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++)
    if (!known[i].at) {
      known[i].at = (CUdeviceptr)p;
      known[i].size = n;
      known[i].type = type;
      known[i].device = (int)((u64)current - 0xc000);
      known[i].fd = fd;
      break;
    }
  pthread_mutex_unlock(&lock);
  return p;
}
static void forget(void* p) {
  int fd = -1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++)
    if (known[i].at == (CUdeviceptr)p) {
      known[i].at = 0;
      fd = known[i].fd;
      if (fd >= 0) munmap(p, known[i].size);
    }
  pthread_mutex_unlock(&lock);
  if (fd >= 0) {
    if (flock(fd, LOCK_EX | LOCK_NB)) call(NO, "misuse: another process has it open");
    close(fd);
  } else {
    free(p);
  }
}
CUresult cuMemAlloc(CUdeviceptr* p, size_t n) {
  UNSAFE();
  OR_FAIL(NEW, "%zu", n);
  *p = (CUdeviceptr)know(n, CU_MEMORYTYPE_DEVICE);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) {
  UNSAFE();
  forget((void*)p);
  return call(GONE, "");
}
CUresult cuMemHostAlloc(void** p, size_t n, unsigned f) {
  UNSAFE();
  OR_FAIL(NEW, "%zu,%u", n, f);
  *p = know(n, CU_MEMORYTYPE_HOST);
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* d, void* p, unsigned f) {
  OR_FAIL(NO, "%u", f);
  *d = (CUdeviceptr)p;
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* p) { forget(p); return call(GONE, ""); }
// Small copies from the host are on their way when the call returns: they arrive when somebody waits
// for the default stream, or uses it again.
static struct {
  CUdeviceptr to;
  size_t n;
  char bytes[64 << 10];
} on_its_way;
static void arriveLocked(void) {
  memcpy((void*)on_its_way.to, on_its_way.bytes, on_its_way.n);
  on_its_way.n = 0;
}
static void arrive(void) {
  pthread_mutex_lock(&lock);
  arriveLocked();
  pthread_mutex_unlock(&lock);
}
CUresult cuMemcpyHtoD(CUdeviceptr d, const void* s, size_t n) {
  UNSAFE();
  OR_FAIL(NO, "%zu", n);
  pthread_mutex_lock(&lock);
  arriveLocked();  // what another thread copied must not be lost
  if (n > sizeof on_its_way.bytes) {
    memcpy((void*)d, s, n);
  } else {
    on_its_way.to = d;
    on_its_way.n = n;
    memcpy(on_its_way.bytes, s, n);
  }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void* d, CUdeviceptr s, size_t n) {
  UNSAFE();
  OR_FAIL(NO, "%zu", n);
  arrive();
  memcpy(d, (void*)s, n);
  return CUDA_SUCCESS;
}
static int farFrom(CUdeviceptr at);
// FAKECUDA_CORRUPT: what goes to another device's memory arrives changed, as behind an IOMMU.
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) {
  OR_FAIL(NO, "%zu,%llx", n, (u64)t);
  memcpy((void*)d, (void*)s, n);
  if (getenv("FAKECUDA_CORRUPT") && farFrom(d)) ((char*)d)[n - 1] ^= 1;
  return CUDA_SUCCESS;
}
static void keep(CUstream t, u64 at, u64 value, int wide, int waits, size_t copied);
CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) {
  OR_FAIL(NO, "%zu,%llx", n, (u64)t);
  launched_into(t);
  if (n) keep(t, d, s, 0, 0, n);
  return CUDA_SUCCESS;
}
// The attribute must be for all copies: its index is that of the first.
static CUresult batch(const char* name, CUdeviceptr* d, CUdeviceptr* s, size_t* n, size_t count,
                      CUmemcpyAttributes* a, size_t* first, size_t attributes, CUstream t) {
  OR_FAIL(0, name, "%zu,%zu,%d,%u,%zu,%zu,%llx", count, count ? n[count - 1] : 0, a->srcAccessOrder,
          a->flags, first[0], attributes, (u64)t);
  if (!t || capturing || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) memcpy((void*)d[i], (void*)s[i], n[i]);
  return CUDA_SUCCESS;
}
#undef cuMemcpyBatchAsync
CUresult cuMemcpyBatchAsync(CUdeviceptr* d, CUdeviceptr* s, size_t* n, size_t count,
                            CUmemcpyAttributes* a, size_t* first, size_t attributes, size_t* failed,
                            CUstream t) {
  *failed = ~0ull;
  return batch(__func__, d, s, n, count, a, first, attributes, t);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* d, CUdeviceptr* s, size_t* n, size_t count,
                               CUmemcpyAttributes* a, size_t* first, size_t attributes, CUstream t) {
  return batch(__func__, d, s, n, count, a, first, attributes, t);
}
// Memory operations of streams, and copies. What comes after a wait that is not fulfilled is kept
// until it is, and somebody asks.
static struct {
  CUstream stream;
  u64 at, value;  // of a copy the source
  int wide, waits;
  size_t copied;
} kept[4096];
static int fulfilled(u64 at, u64 value, int wide) {
  return wide ? (long long)(*(u64*)at - value) >= 0
              : (int)(*(unsigned*)at - (unsigned)value) >= 0;
}
static void store(u64 at, u64 value, int wide) {
  if (wide) *(volatile u64*)at = value;
  else *(volatile unsigned*)at = (unsigned)value;
}
static void proceed(void) {
  for (int more = 1; more;) {
    more = 0;
    for (int i = 0; i < n_kept; i++) {
      int behind = 0;
      for (int j = 0; j < i; j++) behind |= kept[j].stream == kept[i].stream;
      if (behind || (kept[i].waits && !fulfilled(kept[i].at, kept[i].value, kept[i].wide))) continue;
      if (kept[i].copied) memcpy((void*)kept[i].at, (void*)kept[i].value, kept[i].copied);
      if (kept[i].copied && corrupting) ++*(char*)kept[i].at;
      if (!kept[i].copied && !kept[i].waits) store(kept[i].at, kept[i].value, kept[i].wide);
      n_kept--;
      memmove(kept + i, kept + i + 1, (n_kept - i) * sizeof kept[0]);
      more = 1;
      break;
    }
  }
}
static CUresult memoryOperation(const char* name, CUstream t, u64 at, u64 value, unsigned f, int wide,
                                int waits) {
  OR_FAIL(0, name, "%llx,%llu,%u", (u64)t, value, f);
  keep(t, at, value, wide, waits, 0);
  return CUDA_SUCCESS;
}
static void keep(CUstream t, u64 at, u64 value, int wide, int waits, size_t copied) {
  pthread_mutex_lock(&lock);
  if (n_kept == 4096) abort();
  kept[n_kept].stream = t;
  kept[n_kept].at = at;
  kept[n_kept].value = value;
  kept[n_kept].wide = wide;
  kept[n_kept].copied = copied;
  kept[n_kept++].waits = waits;
  proceed();
  pthread_mutex_unlock(&lock);
}
// Whether a stream has something that waits; words may have been stored meanwhile.
static int waiting(CUstream t) {
  int found = 0;
  pthread_mutex_lock(&lock);
  proceed();
  for (int i = 0; i < n_kept; i++) found |= kept[i].stream == t;
  pthread_mutex_unlock(&lock);
  return found;
}
CUresult cuStreamWaitValue32(CUstream t, CUdeviceptr at, cuuint32_t v, unsigned f) {
  return memoryOperation(__func__, t, at, v, f, 0, 1);
}
CUresult cuStreamWaitValue64(CUstream t, CUdeviceptr at, cuuint64_t v, unsigned f) {
  return memoryOperation(__func__, t, at, v, f, 1, 1);
}
CUresult cuStreamWriteValue32(CUstream t, CUdeviceptr at, cuuint32_t v, unsigned f) {
  return memoryOperation(__func__, t, at, v, f, 0, 0);
}
CUresult cuStreamWriteValue64(CUstream t, CUdeviceptr at, cuuint64_t v, unsigned f) {
  return memoryOperation(__func__, t, at, v, f, 1, 0);
}
// Streams that still wait.
int fakeWaiting(void) { return n_kept; }
CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream t) {
  OR_FAIL(NO, "%d,%zu,%llx", v, n, (u64)t);
  if (!t) arrive();
  memset((void*)d, v, n);
  return CUDA_SUCCESS;
}
CUresult cuStreamCreate(CUstream* t, unsigned f) {
  OR_FAIL(NEW, "%u", f);
  *t = (CUstream)handle();
  return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return call(NO, "");
}
CUresult cuStreamCreateWithPriority(CUstream* t, unsigned f, int priority) {
  OR_FAIL(NEW, "%u,%d", f, priority);
  *t = (CUstream)handle();
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream t) { return call(GONE, ""); }
CUresult cuStreamSynchronize(CUstream t) {
  LOOK(t);
  UNSAFE();
  if (!t) arrive();
  for (int ms = 0; waiting(t); ms++) {
    if (ms == 60000) return CUDA_ERROR_LAUNCH_TIMEOUT;
    usleep(1000);
  }
  return call(NO, "%llx", (u64)t);
}
CUresult cuStreamQuery(CUstream t) {
  LOOK(t);
  OR_FAIL(NO, "%llx", (u64)t);
  return waiting(t) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
static int recordingOf(CUevent e) {
  for (int i = 0; i < n_recordings; i++)
    if (recordings[i].event == e) return i;
  return -1;
}
// A stream that waits for an event of a capture is captured from then on.
CUresult cuStreamWaitEvent(CUstream t, CUevent e, unsigned f) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  int at = recordingOf(e);
  CUstream origin = at < 0 ? NULL : recordings[at].origin;
  Captured* waiting = captureOf(t);
  if (origin && waiting && waiting->origin != origin) {
    result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
  } else if (waiting && at >= 0 && !origin) {
    result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  } else if (origin && !waiting) {
    Captured* free = captured;
    while (free->stream) free++;
    *free = *captureOf(origin);
    free->stream = t;
    free->joined = 0;
  } else if (origin) {
    Captured* from = captureOf(recordings[at].stream);
    if (from) from->joined = 1;
  }
  if (result && waiting) spoil(waiting->origin);
  pthread_mutex_unlock(&lock);
  return result ? result : call(NO, "%llx,%llx,%u", (u64)t, (u64)e, f);
}
CUresult cuStreamIsCapturing(CUstream t, CUstreamCaptureStatus* s) {
  pthread_mutex_lock(&lock);
  Captured* c = captureOf(t);
  *s = c && c->spoilt     ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
       : c || capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                        : CU_STREAM_CAPTURE_STATUS_NONE;
  pthread_mutex_unlock(&lock);
  return call(NO, "%llx", (u64)t);
}
CUresult cuStreamBeginCapture(CUstream t, CUstreamCaptureMode m) {
  OR_FAIL(NO, "%llx,%d", (u64)t, m);
  pthread_mutex_lock(&lock);
  Captured* free = captured;
  while (free->stream) free++;
  CUresult result = t && !captureOf(t) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
  if (!result) *free = (Captured){t, t, m, pthread_self(), 0, 1};
  pthread_mutex_unlock(&lock);
  return result;
}
CUresult cuStreamEndCapture(CUstream t, CUgraph* g) {
  *g = NULL;
  pthread_mutex_lock(&lock);
  Captured* c = captureOf(t);
  CUresult result = !c || c->origin != t ? CUDA_ERROR_ILLEGAL_STATE
                    : !pthread_equal(c->thread, pthread_self()) ? CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                    : c->spoilt                                 ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                                : CUDA_SUCCESS;
  for (int i = 0; i < 64 && !result; i++)
    if (captured[i].stream && captured[i].origin == t && captured[i].stream != t && !captured[i].joined)
      result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) drop_capture(t);
  pthread_mutex_unlock(&lock);
  if (result) return result;
  OR_FAIL(NEW, "%llx", (u64)t);
  *g = (CUgraph)handle();
  return CUDA_SUCCESS;
}
static CUresult instantiate(const char* name, CUgraphExec* e) {
  OR_FAIL(1, name, "");
  *e = (CUgraphExec)handle();
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* e, CUgraph g, u64 f) {
  return instantiate("cuGraphInstantiate", e);
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream t) { return call(NO, "%llx,%llx", (u64)e, (u64)t); }
CUresult cuGraphExecDestroy(CUgraphExec e) { return call(GONE, "%llx", (u64)e); }
CUresult cuGraphDestroy(CUgraph g) { return call(GONE, "%llx", (u64)g); }
// With FAKECUDA_HOLD streams never come to the functions that they are to call.
CUresult cuLaunchHostFunc(CUstream t, CUhostFn f, void* data) {
  OR_FAIL(NO, "%llx", (u64)t);
  if (getenv("FAKECUDA_HOLD")) return CUDA_SUCCESS;
  called_by_stream = 1;
  f(data);
  called_by_stream = 0;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* e, unsigned f) {
  OR_FAIL(NEW, "%u", f);
  *e = (CUevent)handle();
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream t) {
  OR_FAIL(NO, "%llx,%llx", (u64)e, (u64)t);
  pthread_mutex_lock(&lock);
  int at = recordingOf(e);
  if (at < 0) at = n_recordings++ % 256;
  if (n_recordings > 256) n_recordings = 256;
  Captured* c = captureOf(t);
  recordings[at].event = e;
  recordings[at].stream = t;
  recordings[at].origin = c ? c->origin : NULL;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
static CUresult lookAtEvent(CUevent e, const char* name) {
  pthread_mutex_lock(&lock);
  int at = recordingOf(e);
  CUstream origin = at < 0 ? NULL : recordings[at].origin;
  if (origin) forbidden(origin, name);
  pthread_mutex_unlock(&lock);
  return origin ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent e) {
  CUresult result = lookAtEvent(e, __func__);
  if (result) return result;
  UNSAFE();
  return call(NO, "%llx", (u64)e);
}
CUresult cuEventSynchronize(CUevent e) {
  CUresult result = lookAtEvent(e, __func__);
  if (result) return result;
  UNSAFE();
  return call(NO, "%llx", (u64)e);
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  *ms = 1.5f;
  return call(NO, "%llx,%llx", (u64)a, (u64)b);
}
CUresult cuEventDestroy(CUevent e) {
  pthread_mutex_lock(&lock);
  int at = recordingOf(e);
  if (at >= 0) recordings[at] = recordings[--n_recordings];
  pthread_mutex_unlock(&lock);
  return call(GONE, "%llx", (u64)e);
}
CUresult cuModuleLoadData(CUmodule* m, const void* image) {
  UNSAFE();
  OR_FAIL(NO, "%s", memcmp(image, "\x50\xed\x55\xba", 4) == 0 ? "fatbin" : "?");
  *m = (CUmodule)handle();
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  OR_FAIL(NO, "%s", name);
  *f = (CUfunction)handle();
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) { return call(NO, ""); }
CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction f) {
  *v = 576;
  return call(NO, "%d", a);
}
CUresult cuMemGetAllocationGranularity(size_t* g, const CUmemAllocationProp* p,
                                       CUmemAllocationGranularity_flags o) {
  *g = 2 << 20;
  return call(NO, "%d,%d,%d,%d,%d", p->type, p->requestedHandleTypes, p->location.type,
              p->location.id, o);
}
// Physical memory is a memfd, so that it can be mapped many times and in other processes.
typedef struct {
  int fd, references, mappings;
  size_t size;
  CUmemAllocationProp prop;
} Physical;
typedef struct {
  CUdeviceptr at;
  size_t size;
  Physical* memory;
} Mapping;
static Mapping mappings[4096];
static pthread_mutex_t maps = PTHREAD_MUTEX_INITIALIZER;  // of who changes them
static Physical* physical(CUmemGenericAllocationHandle h) { return (Physical*)h; }
static void drop(Physical* p) {
  if (p->references == 0 && p->mappings == 0) {
    close(p->fd);
    free(p);
  }
}
static CUmemGenericAllocationHandle physicalOf(int fd, size_t size, const CUmemAllocationProp* prop) {
  Physical* p = calloc(1, sizeof *p);
  p->fd = fd;
  p->references = 1;
  p->size = size;
  if (prop) p->prop = *prop;
  return (CUmemGenericAllocationHandle)p;
}
static Mapping* mappingAt(CUdeviceptr at) {
  for (int i = 0; i < 4096; i++)
    if (mappings[i].memory && at - mappings[i].at < mappings[i].size) return &mappings[i];
  return NULL;
}
static int farFrom(CUdeviceptr at) {
  Mapping* m = mappingAt(at);
  return m && m->memory->prop.location.id != (int)((u64)current - 0xc000);
}
// Memory of cuMemAlloc in other processes: a handle is the process and its descriptor, with a mark at
// its end.
#define HANDLE_MARK 0x6e6363346a697063ull
CUresult cuIpcGetMemHandle(CUipcMemHandle* h, CUdeviceptr p) {
  OR_FAIL(NO, "");
  for (int i = 0; i < 4096; i++)
    if (known[i].at == p && known[i].fd >= 0) {
      u64 words[8] = {getpid(), known[i].fd, known[i].size, 3, 4, 5, 6, HANDLE_MARK};
      memcpy(h, words, sizeof words);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
static struct {
  CUdeviceptr at;
  size_t size;
  int fd;
} opened[64];
CUresult cuIpcOpenMemHandle(CUdeviceptr* p, CUipcMemHandle h, unsigned f) {
  OR_FAIL(NEW, "%u", f);
  u64 words[8];
  memcpy(words, &h, sizeof words);
  if (words[7] != HANDLE_MARK || words[3] != 3 || words[6] != 6) return CUDA_ERROR_INVALID_HANDLE;
  char name[64];
  snprintf(name, sizeof name, "/proc/%llu/fd/%llu", words[0], words[1]);
  int fd = open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  void* at = mmap(NULL, words[2], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  flock(fd, LOCK_SH);  // so that its owner can see that it is open
  *p = (CUdeviceptr)at;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64; i++)
    if (!opened[i].at) {
      opened[i].at = *p;
      opened[i].size = words[2];
      opened[i].fd = fd;
      break;
    }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64 && !found; i++)
    if (opened[i].at == p) {
      munmap((void*)p, opened[i].size);
      close(opened[i].fd);
      opened[i].at = 0;
      found = 1;
    }
  pthread_mutex_unlock(&lock);
  if (found) return call(GONE, "");
  call(NO, "misuse: what was not opened is closed");
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned f) { return call(NO, "%llx,%u", (u64)c, f); }
#define PINNED 1024
static u64 pinned[PINNED];
// Puts a value in the place of another, the first that is found; whether there was one.
static int exchange(u64* table, u64 old, u64 with) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < PINNED && !found; i++)
    if (table[i] == old) {
      table[i] = with;
      found = 1;
    }
  pthread_mutex_unlock(&lock);
  return found;
}
CUresult cuMemHostRegister(void* p, size_t n, unsigned f) {
  OR_FAIL(NEW, "%zu,%u", n, f);
  return exchange(pinned, 0, (u64)p) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult cuMemHostUnregister(void* p) {
  if (exchange(pinned, (u64)p, 0)) return call(GONE, "");
  call(NO, "misuse: what was not pinned is unpinned");
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* h, size_t n, const CUmemAllocationProp* p, u64 f) {
  OR_FAIL(NEW, "%zu,%d,%d,%d,%d,%d,%llu", n, p->type, p->requestedHandleTypes, p->location.type,
          p->location.id, p->allocFlags.usage, f);
  int fd = memfd_create("fake", MFD_CLOEXEC);
  if (ftruncate(fd, n)) return CUDA_ERROR_OUT_OF_MEMORY;
  *h = physicalOf(fd, n, p);
  return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  pthread_mutex_lock(&maps);
  physical(h)->references--;
  drop(physical(h));
  pthread_mutex_unlock(&maps);
  return call(GONE, "");
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* h, void* at) {
  Mapping* m = mappingAt((CUdeviceptr)at);
  if (!m) return call(NO, "none") ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_VALUE;
  OR_FAIL(NEW, "");
  m->memory->references++;
  *h = (CUmemGenericAllocationHandle)m->memory;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* p,
                                                CUmemGenericAllocationHandle h) {
  *p = physical(h)->prop;
  return call(NO, "");
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  OR_FAIL(NO, "%d", attribute);
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) {  // devices see pinned memory where it is
    *(u64*)data = at;
    return CUDA_SUCCESS;
  }
  int asked = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  Mapping* m = mappingAt(at);
  if (m) {
    *(int*)data = asked ? CU_MEMORYTYPE_DEVICE : m->memory->prop.location.id;
    return CUDA_SUCCESS;
  }
  for (int i = 0; i < 4096; i++)
    if (known[i].at && at - known[i].at < known[i].size) {
      *(int*)data = asked ? known[i].type : known[i].device;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr at) {
  Mapping* m = mappingAt(at);
  OR_FAIL(NO, "");
  *base = m->at;
  *size = m->size;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* p, size_t n, size_t align, CUdeviceptr at, u64 f) {
  OR_FAIL(NEW, "%zu,%zu,%llu,%llu", n, align, at, f);
  char* more = mmap(NULL, n + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char* begin = (char*)(((u64)more + align - 1) / align * align);
  if (begin > more) munmap(more, begin - more);
  munmap(begin + n, more + align - begin);
  *p = (CUdeviceptr)begin;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
  munmap((void*)p, n);
  return call(GONE, "%zu", n);
}
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t o, CUmemGenericAllocationHandle h, u64 f) {
  OR_FAIL(NEW, "%zu,%zu,%llu", n, o, f);
  if (mmap((void*)p, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical(h)->fd, o) ==
      MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&maps);
  for (int i = 0; i < 4096 && result; i++) {
    if (!mappings[i].memory) {
      mappings[i] = (Mapping){p, n, physical(h)};
      physical(h)->mappings++;
      result = CUDA_SUCCESS;
    }
  }
  pthread_mutex_unlock(&maps);
  return result;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
  pthread_mutex_lock(&maps);
  Mapping* m = mappingAt(p);
  if (!m || m->at != p || m->size != n) {
    pthread_mutex_unlock(&maps);
    return CUDA_ERROR_INVALID_VALUE;
  }
  mmap((void*)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  m->memory->mappings--;
  drop(m->memory);
  m->memory = NULL;
  pthread_mutex_unlock(&maps);
  return call(GONE, "%zu", n);
}
// Multicast objects, found again by the inode of the file behind their handles.
typedef struct {
  ino_t inode;
  CUmulticastObjectProp prop;
  unsigned added, bound;  // a bit for each device
} Team;
static Team teams[256];
static int n_teams;
#define BEST_GRANULE (granule > 4 << 20 ? granule : 4 << 20)

static Team* teamOf(Physical* p) {
  struct stat s;
  if (fstat(p->fd, &s)) return NULL;
  for (int i = 0; i < n_teams; i++)
    if (teams[i].inode == s.st_ino) return &teams[i];
  return NULL;
}
// What a driver would answer with an error, or worse.
static CUresult misuse(const char* what) {
  call(NO, "misuse: %s", what);
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMulticastGetGranularity(size_t* g, const CUmulticastObjectProp* p,
                                   CUmulticastGranularity_flags o) {
  *g = o == CU_MULTICAST_GRANULARITY_MINIMUM ? granule : BEST_GRANULE;
  return call(NO, "%u,%zu,%llu,%llu,%d", p->numDevices, p->size, p->handleTypes, p->flags, o);
}
CUresult cuMulticastCreate(CUmemGenericAllocationHandle* h, const CUmulticastObjectProp* p) {
  OR_FAIL(NEW, "%u,%zu,%llu,%llu", p->numDevices, p->size, p->handleTypes, p->flags);
  if (p->numDevices < 2 || p->size % granule || p->handleTypes != 1 || p->flags)
    return misuse("properties");
  int fd = memfd_create("fake", MFD_CLOEXEC);
  if (ftruncate(fd, p->size)) return CUDA_ERROR_OUT_OF_MEMORY;
  struct stat s;
  fstat(fd, &s);
  teams[n_teams++ % 256] = (Team){s.st_ino, *p, 0, 0};
  if (n_teams > 256) abort();
  *h = physicalOf(fd, p->size, NULL);
  return CUDA_SUCCESS;
}
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle h, CUdevice d) {
  OR_FAIL(NO, "%d", d);
  Team* team = teamOf(physical(h));
  if (!team) return misuse("no multicast object");
  if (team->added >> d & 1) return misuse("a device is added twice");
  __atomic_fetch_or(&team->added, 1u << d, __ATOMIC_SEQ_CST);
  return CUDA_SUCCESS;
}
// From is an offset in the memory, or the address at which it is bound.
static CUresult bindTo(CUmemGenericAllocationHandle h, size_t at, Physical* memory, u64 from,
                       size_t n) {
  Team* team = teamOf(physical(h));
  unsigned d = memory->prop.location.id;
  if (!team) return misuse("no multicast object");
  if (__builtin_popcount(team->added) != (int)team->prop.numDevices)
    return misuse("memory is bound before all devices are added");
  if (!(team->added >> d & 1)) return misuse("memory of a device that was not added");
  if (team->bound >> d & 1) return misuse("memory is bound twice");
  if ((at | from | n) % granule || n > team->prop.size || n > memory->size) return misuse("size");
  __atomic_fetch_or(&team->bound, 1u << d, __ATOMIC_SEQ_CST);
  return call(1, "bound", "%u", d);
}
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle h, size_t at,
                            CUmemGenericAllocationHandle memory, size_t from, size_t n, u64 f) {
  OR_FAIL(NO, "%zu,%zu,%zu,%llu", at, from, n, f);
  return bindTo(h, at, physical(memory), from, n);
}
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle h, size_t at, CUdeviceptr from, size_t n,
                             u64 f) {
  OR_FAIL(NO, "%zu,%zu,%llu", at, n, f);
  Mapping* m = mappingAt(from);
  return m && f == 0 ? bindTo(h, at, m->memory, from, n) : misuse("an address of no memory");
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle h, CUdevice d, size_t at, size_t n) {
  OR_FAIL(NO, "%d,%zu,%zu", d, at, n);
  Team* team = teamOf(physical(h));
  if (!team || !(team->bound >> d & 1)) return misuse("what was not bound is unbound");
  __atomic_fetch_and(&team->bound, ~(1u << d), __ATOMIC_SEQ_CST);
  return call(-1, "unbound", "%d", d);
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc* d, size_t c) {
  Mapping* m = mappingAt(p);
  for (size_t i = 0; m && i < c; i++)
    if (d[i].location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
        m->memory->prop.location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
      return misuse("the processor is let into a device's memory");
  Team* team = m ? teamOf(m->memory) : NULL;
  if (team && __builtin_popcount(team->bound) != (int)team->prop.numDevices)
    return misuse("access to a multicast object waits for ever for members");
  return call(NO, "%zu,%d,%d,%d,%zu", n, d->location.type, d->location.id, d->flags, c);
}
// A dma-buf is the file of the memory.
CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr p, size_t n, CUmemRangeHandleType t,
                                       u64 f) {
  OR_FAIL(NO, "%zu,%d,%llu", n, t, f);
  Mapping* m = mappingAt(p);
  if (!m || m->at != p || m->size != n || t != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || f)
    return misuse("a dma-buf of what is not mapped");
  if (m->memory->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      !m->memory->prop.allocFlags.gpuDirectRDMACapable)
    return misuse("a dma-buf of memory that is not for network cards");
  *(int*)out = fcntl(m->memory->fd, F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle h,
                                      CUmemAllocationHandleType t, u64 f) {
  OR_FAIL(NO, "%d,%llu", t, f);
  *(int*)out = fcntl(physical(h)->fd, F_DUPFD_CLOEXEC, 0);
  return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* h, void* os,
                                        CUmemAllocationHandleType t) {
  OR_FAIL(NEW, "%llu,%d", (u64)os, t);
  int fd = fcntl((int)(u64)os, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  *h = physicalOf(fd, lseek(fd, 0, SEEK_END), NULL);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
  launched_into(c->hStream);
  memcpy(arguments, params[0], sizeof arguments);
  char attributes[256] = "";
  for (unsigned i = 0; i < c->numAttrs; i++) {  // the value of others is an int
    const CUlaunchAttribute* a = &c->attrs[i];
    snprintf(attributes + strlen(attributes), 32, "%s%d:%d", i ? "+" : "", a->id, *(int*)&a->value);
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      snprintf(attributes + strlen(attributes), 32, "x%ux%u", a->value.clusterDim.y,
               a->value.clusterDim.z);
      if (c->gridDimX % a->value.clusterDim.x) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return call(NO, "%u,%u,%u,%u,%u,%u,%u,%llx,%s,%llx", c->gridDimX, c->gridDimY, c->gridDimZ,
              c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, (u64)c->hStream, attributes,
              (u64)extra);
}
