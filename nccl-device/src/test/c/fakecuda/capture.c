// Captures. As in a driver, calls that are refused while streams are captured spoil the capture: calls
// that wait for or ask about a captured stream, and, of a thread that has not said otherwise, calls
// that may wait for everything.
typedef struct {
  CUstream stream, origin;  // who began the capture; itself if it did
  CUstreamCaptureMode mode;
  pthread_t thread;
  int spoilt, joined;
  u64 id;
} Captured;
static Captured captured[64];
static u64 captures;
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
// Streams that the legacy stream waits for and that wait for it: no use of it while one is captured.
static CUstream blocking[64];
static int n_blocking;
static CUresult legacy(CUstream t, const char* name) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < n_blocking && !t; i++) {
    Captured* c = captureOf(blocking[i]);
    if (!c) continue;
    forbidden(c->origin, name);
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  pthread_mutex_unlock(&lock);
  return result;
}
#define LEGACY(t)                          \
  do {                                     \
    CUresult used = legacy(t, __func__); \
    if (used) return used;                 \
  } while (0)
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
  n_blocking = 0;
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
// FAKECUDA_DEVICES: how many a process sees. FAKECUDA_VISIBLE: the only one, as in CUDA_VISIBLE_DEVICES.
CUresult cuDeviceGetCount(int* n) {
  const char* devices = getenv("FAKECUDA_DEVICES");
  *n = getenv("FAKECUDA_VISIBLE") ? 1 : devices ? atoi(devices) : 2;
  return call(NO, "");
}
CUresult cuDeviceGet(CUdevice* d, int i) { *d = i; return call(NO, "%d", i); }
CUresult cuDeviceGetName(char* s, int n, CUdevice d) {
  const char* name = getenv("FAKECUDA_NAME");  // of all GPUs
  if (name && *name) snprintf(s, n, "%s", name);
  else snprintf(s, n, "Fake GPU %d", d);
  return call(NO, "%d", d);
}
