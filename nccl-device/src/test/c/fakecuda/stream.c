// Memory operations of streams, and copies. Operations after a wait that is not fulfilled are kept
// until it is, and somebody asks.
static struct {
  CUstream stream;
  u64 at, value;  // of a copy the source
  int wide, waits;
  size_t copied;
  long due;  // the time of a copy that is late
} kept[4096];
// FAKECUDA_LATE_COPIES: copies of streams take so many milliseconds, without anybody who asks.
static int late_ms = -1;
static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static void proceed(void);
static void* proceedAlways(void* unused) {
  for (;;) {
    usleep(500);
    pthread_mutex_lock(&lock);
    proceed();
    pthread_mutex_unlock(&lock);
  }
  return unused;
}
static int lateMs(void) {
  if (late_ms >= 0) return late_ms;
  const char* ms = getenv("FAKECUDA_LATE_COPIES");
  late_ms = ms ? atoi(ms) : 0;
  pthread_t thread;
  if (late_ms && pthread_create(&thread, NULL, proceedAlways, NULL)) abort();
  return late_ms;
}
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
      if (kept[i].due && now_ms() < kept[i].due) continue;
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
// What streams keep for memory that goes is never done: the fake's kernels store nothing that is waited for.
static void unkeep(u64 at, size_t n) {
  pthread_mutex_lock(&lock);
  int left = 0;
  for (int i = 0; i < n_kept; i++) {
    int gone = kept[i].at - at < n || (kept[i].copied && kept[i].value - at < n);
    if (!gone) kept[left++] = kept[i];
  }
  n_kept = left;
  pthread_mutex_unlock(&lock);
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
  kept[n_kept].due = copied && lateMs() ? now_ms() + lateMs() : 0;
  kept[n_kept++].waits = waits;
  proceed();
  pthread_mutex_unlock(&lock);
}
// True if a stream has something that waits; words may have been stored meanwhile.
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
// Whole pages of physical memory become holes, which read as zeros: two ranks' connections are 160 MB,
// of which tests touch little.
static void zero(CUdeviceptr d, size_t n) {
  CUdeviceptr page = 4096, first = (d + page - 1) / page * page, end = (d + n) / page * page;
  if (first < end && madvise((void*)first, end - first, MADV_REMOVE) == 0) {
    memset((void*)d, 0, first - d);
    memset((void*)end, 0, d + n - end);
  } else {
    memset((void*)d, 0, n);
  }
}
CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream t) {
  LEGACY(t);
  OR_FAIL(NO, "%d,%zu,%llx", v, n, (u64)t);
  arrive(t);
  if (v)
    memset((void*)d, v, n);
  else
    zero(d, n);
  return CUDA_SUCCESS;
}
// The contexts of streams. The driver reads what a handle points to, so others are no error here.
static struct {
  CUstream stream;
  CUcontext context;
} contexts[1024];
static int n_contexts;
static CUstream created(void) {
  CUstream t = (CUstream)handle();
  pthread_mutex_lock(&lock);
  contexts[n_contexts % 1024].stream = t;
  contexts[n_contexts++ % 1024].context = current;
  pthread_mutex_unlock(&lock);
  return t;
}
// Moves a stream to a context of its device that a program has created, or to a green one.
void fakeContext(u64 stream, int is_green) {
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 1024; i++)
    if (contexts[i].stream == (CUstream)stream)
      contexts[i].context = (CUcontext)(u64)((is_green ? GREEN : CREATED) + device_of(contexts[i].context));
  pthread_mutex_unlock(&lock);
}
// Functions and events are of the primary context; streams of created contexts take none of them.
static int is_apart(CUstream t) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 1024 && t; i++)
    found |= contexts[i].stream == t && ((u64)contexts[i].context & ~0xffull) == CREATED;
  pthread_mutex_unlock(&lock);
  return found;
}
#define APART(t) \
  do { if (is_apart(t)) return CUDA_ERROR_INVALID_HANDLE; } while (0)
CUresult cuStreamGetCtx(CUstream t, CUcontext* c) {
  OR_FAIL(NO, "%llx", (u64)t);
  for (int i = 0; i < 1024; i++)
    if (contexts[i].stream == t) {
      *c = contexts[i].context;
      return CUDA_SUCCESS;
    }
  return call(NO, "misuse: %llx is no stream", (u64)t);
}
// Streams that were destroyed, and whose handles a test gave to new ones.
static CUstream renewed[64];
static int n_renewed;
void fakeRenew(u64 stream) {
  pthread_mutex_lock(&lock);
  renewed[n_renewed++ % 64] = (CUstream)stream;
  pthread_mutex_unlock(&lock);
}
CUresult cuStreamGetId(CUstream t, u64* id) {
  LOOK(t);
  UNSAFE();
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  *id = (u64)t;
  for (int i = 0; i < 64; i++) *id += (renewed[i] == t) * (1ull << 48);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetDevice(CUdevice* d) {
  if (!current) return CUDA_ERROR_INVALID_CONTEXT;
  *d = device_of(current);
  return call(NO, "");
}
CUresult cuStreamCreate(CUstream* t, unsigned f) {
  OR_FAIL(NEW, "%u", f);
  *t = created();
  pthread_mutex_lock(&lock);
  if (!(f & CU_STREAM_NON_BLOCKING) && n_blocking < 64) blocking[n_blocking++] = *t;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return call(NO, "");
}
CUresult cuStreamCreateWithPriority(CUstream* t, unsigned f, int priority) {
  OR_FAIL(NEW, "%u,%d", f, priority);
  *t = created();
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream t) { return call(GONE, ""); }
CUresult cuStreamSynchronize(CUstream t) {
  LOOK(t);
  UNSAFE();
  arrive(t);
  for (int ms = 0; operating || waiting(t); ms++) {
    if (ms == 60000) return CUDA_ERROR_LAUNCH_TIMEOUT;
    usleep(1000);
  }
  return call(NO, "%llx", (u64)t);
}
CUresult cuCtxSynchronize(void) {
  for (int ms = 0, busy = 1; busy; ms++) {
    pthread_mutex_lock(&lock);
    proceed();
    busy = operating || n_kept > 0;
    pthread_mutex_unlock(&lock);
    if (ms == 60000) return CUDA_ERROR_LAUNCH_TIMEOUT;
    if (busy) usleep(1000);
  }
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream t) {
  LOOK(t);
  OR_FAIL(NO, "%llx", (u64)t);
  return operating || waiting(t) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
static int recordingOf(CUevent e) {
  for (int i = 0; i < n_recordings; i++)
    if (recordings[i].event == e) return i;
  return -1;
}
// A stream that waits for an event of a capture is captured from then on. An external wait or record
// is a node of the graph.
CUresult cuStreamWaitEvent(CUstream t, CUevent e, unsigned f) {
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&lock);
  int at = recordingOf(e);
  CUstream origin = at < 0 ? NULL : recordings[at].origin;
  Captured* waiting = captureOf(t);
  if (f & CU_EVENT_WAIT_EXTERNAL) {
    if (!waiting) result = CUDA_ERROR_INVALID_VALUE;
    else waiting->joined = 0;
  } else if (origin && waiting && waiting->origin != origin) {
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
CUresult cuStreamGetCaptureInfo_v2(CUstream t, CUstreamCaptureStatus* s, cuuint64_t* id, CUgraph* g,
                                   const CUgraphNode** nodes, size_t* n) {
  pthread_mutex_lock(&lock);
  Captured* c = captureOf(t);
  *s = c && c->spoilt     ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
       : c || capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                        : CU_STREAM_CAPTURE_STATUS_NONE;
  *id = c ? c->id : 0;
  pthread_mutex_unlock(&lock);
  return call(NO, "%llx", (u64)t);
}
CUresult cuStreamBeginCapture(CUstream t, CUstreamCaptureMode m) {
  OR_FAIL(NO, "%llx,%d", (u64)t, m);
  pthread_mutex_lock(&lock);
  Captured* free = captured;
  while (free->stream) free++;
  CUresult result = t && !captureOf(t) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_STATE;
  if (!result) *free = (Captured){t, t, m, pthread_self(), 0, 1, ++captures};
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
// Objects that end with the graph that has them and the executable that was made of it.
static struct {
  CUuserObject object;
  CUgraph graph;
  CUgraphExec executable;
  CUhostFn end;
  void* data;
} objects[256];
CUresult cuUserObjectCreate(CUuserObject* o, void* data, CUhostFn end, unsigned n, unsigned f) {
  OR_FAIL(NEW, "%u,%u", n, f);
  *o = (CUuserObject)handle();
  int i = 0;
  pthread_mutex_lock(&lock);
  while (objects[i].object)
    if (++i == 256) abort();
  objects[i].object = *o;
  objects[i].end = end;
  objects[i].data = data;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuGraphRetainUserObject(CUgraph g, CUuserObject o, unsigned n, unsigned f) {
  OR_FAIL(NO, "%llx,%llx,%u,%u", (u64)g, (u64)o, n, f);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 256; i++)
    if (objects[i].object == o) objects[i].graph = g;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
static CUresult instantiate(const char* name, CUgraphExec* e, CUgraph g) {
  OR_FAIL(1, name, "");
  *e = (CUgraphExec)handle();
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 256; i++)
    if (objects[i].object && objects[i].graph == g) objects[i].executable = *e;
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* e, CUgraph g, u64 f) {
  return instantiate("cuGraphInstantiate", e, g);
}
typedef struct {
  CUhostFn function;
  void* data;
} HostCall;
static HostCall in_graph;  // the last that was captured; graphs call it until one is destroyed
static void* callOnThread(void* made) {
  HostCall* host = made;
  called_by_stream = 1;
  host->function(host->data);
  return NULL;
}
static void callHost(HostCall host) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, callOnThread, &host)) abort();
  pthread_join(thread, NULL);
}
static void release(CUgraph g, CUgraphExec e, CUuserObject o) {
  for (int i = 0; i < 256; i++) {
    pthread_mutex_lock(&lock);
    int is = objects[i].object != NULL;
    int has = objects[i].object == o || (g && objects[i].graph == g) || (e && objects[i].executable == e);
    if (is && g && objects[i].graph == g) objects[i].graph = NULL;
    if (is && e && objects[i].executable == e) objects[i].executable = NULL;
    int ends = is && has && !objects[i].graph && !objects[i].executable;
    HostCall host = {objects[i].end, objects[i].data};
    if (ends) objects[i].object = NULL;
    pthread_mutex_unlock(&lock);
    if (!ends) continue;
    call(-1, "ended", "");
    callHost(host);
  }
}
CUresult cuUserObjectRelease(CUuserObject o, unsigned n) {
  release(NULL, NULL, o);
  return CUDA_SUCCESS;
}
// A thread of the driver's calls the function. With FAKECUDA_HOLD streams never come to the functions that they are to call.
CUresult cuLaunchHostFunc(CUstream t, CUhostFn f, void* data) {
  OR_FAIL(NO, "%llx", (u64)t);
  if (getenv("FAKECUDA_HOLD")) return CUDA_SUCCESS;
  HostCall host = {f, data};
  pthread_mutex_lock(&lock);
  int is_captured = captureOf(t) != NULL;
  if (is_captured) in_graph = host;
  pthread_mutex_unlock(&lock);
  if (!is_captured) callHost(host);
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec e, CUstream t) {
  OR_FAIL(NO, "%llx,%llx", (u64)e, (u64)t);
  if (in_graph.function) callHost(in_graph);
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec e) {
  release(NULL, e, NULL);
  return call(GONE, "%llx", (u64)e);
}
CUresult cuGraphDestroy(CUgraph g) {
  in_graph.function = NULL;
  release(g, NULL, NULL);
  return call(GONE, "%llx", (u64)g);
}
CUresult cuEventCreate(CUevent* e, unsigned f) {
  OR_FAIL(NEW, "%u", f);
  *e = (CUevent)handle();
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent e, CUstream t) {
  APART(t);
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
CUresult cuEventRecordWithFlags(CUevent e, CUstream t, unsigned f) {
  APART(t);
  OR_FAIL(NO, "%llx,%llx,%u", (u64)e, (u64)t, f);
  if (f != CU_EVENT_RECORD_EXTERNAL || !captureOf(t)) return CUDA_ERROR_INVALID_VALUE;
  launched_into(t);
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
  OR_FAIL(NO, "%llx", (u64)e);
  return operating ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent e) {
  CUresult result = lookAtEvent(e, __func__);
  if (result) return result;
  UNSAFE();
  for (int ms = 0; operating; ms++) {
    if (ms == 60000) return CUDA_ERROR_LAUNCH_TIMEOUT;
    usleep(1000);
  }
  return call(NO, "%llx", (u64)e);
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* ms, CUevent a, CUevent b) {
  OR_FAIL(NO, "%llx,%llx", (u64)a, (u64)b);
  // MILLISECONDS, or MILLISECONDS,CALLS,LATER: another time after so many calls
  static int calls;
  const char* elapsed = getenv("FAKECUDA_ELAPSED");
  float first = 1.5f, later = 0;
  int until = 0;
  int given = elapsed ? sscanf(elapsed, "%f,%d,%f", &first, &until, &later) : 0;
  *ms = given == 3 && __sync_fetch_and_add(&calls, 1) >= until ? later : first;
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e) {
  pthread_mutex_lock(&lock);
  int at = recordingOf(e);
  if (at >= 0) recordings[at] = recordings[--n_recordings];
  pthread_mutex_unlock(&lock);
  return call(GONE, "%llx", (u64)e);
}
// The driver loads lazily: a module's code when it is loaded, a function's when an attribute of it is
// asked for or it is launched.
static struct {
  CUfunction function;
  char name[64];
  int is_loaded;
} functions[4096];
static int n_functions;
static const char* launched = "";
static const char* load_function(CUfunction f) {
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < n_functions && functions[i].function != f) i++;
  if (i == n_functions) abort();
  loads_beside += !functions[i].is_loaded && spinning;
  functions[i].is_loaded = 1;
  pthread_mutex_unlock(&lock);
  return functions[i].name;
}
// The kernel that was launched last.
const char* fakeLaunched(void) { return launched; }
CUresult cuModuleLoadData(CUmodule* m, const void* image) {
  UNSAFE();
  loads_beside += spinning;
  OR_FAIL(NO, "%s", memcmp(image, "\x50\xed\x55\xba", 4) == 0   ? "fatbin"
                    : memcmp(image, "functor", 7) == 0 ? (const char*)image
                                                       : "?");
  *m = (CUmodule)handle();
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction* f, CUmodule m, const char* name) {
  OR_FAIL(NO, "%s", name);
  pthread_mutex_lock(&lock);
  if (n_functions == 4096) abort();
  *f = functions[n_functions].function = (CUfunction)handle();
  snprintf(functions[n_functions++].name, 64, "%s", name);
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
// A variable of as many bytes as the test says, or none.
CUresult cuModuleGetGlobal_v2(CUdeviceptr* p, size_t* n, CUmodule m, const char* name) {
  OR_FAIL(NO, "%s", name);
  if (variable_bytes == 0) return CUDA_ERROR_NOT_FOUND;
  *p = 0;
  *n = variable_bytes;
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule m) { return call(NO, ""); }
CUresult cuFuncGetAttribute(int* v, CUfunction_attribute a, CUfunction f) {
  load_function(f);
  *v = a == CU_FUNC_ATTRIBUTE_PTX_VERSION ? compiled_for : 576;
  return call(NO, "%d", a);
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  load_function(f);
  return call(NO, "%d,%d", a, v);
}
CUresult cuMemGetAllocationGranularity(size_t* g, const CUmemAllocationProp* p,
                                       CUmemAllocationGranularity_flags o) {
  *g = 2 << 20;
  return call(NO, "%d,%d,%d,%d,%d", p->type, p->requestedHandleTypes, p->location.type,
              p->location.id, o);
}
