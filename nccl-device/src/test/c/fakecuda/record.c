// Records of calls, failures that a test asks for, and counts of living objects.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char record[1 << 20];
static size_t recorded;
// Functions that fail, each from its n-th call on.
enum { MOST_FAILING = 4 };
static struct {
  char name[64];
  int code;
  int from;
} failing[MOST_FAILING];
static int failure;  // of the call that fails by its number
static int version = 13000;
static int wide_operations = 1;
static int n_kept;  // memory operations of streams that wait
static int corrupting; // what copies in streams move arrives changed
static int capability = 90;
static int multiprocessors = 132;
static int threads_of_multiprocessor = 2048;
static int compiled_for = 90; // compute capability that functions say
// Fabric handles: none, all, or supported and refused, as without an IMEX channel.
enum { NO_FABRIC, FABRIC, REFUSED_FABRIC };
static int fabric;
static int fabric_imports = -1;  // that still work; below 0: all do
static int spinning;   // a kernel runs until a test ends it: nothing may be loaded
static int loads_beside;  // that happened all the same
static int lacking;    // an attribute that no device has
static size_t variable_bytes;  // of all variables of modules; 0 for none
static int capturing;  // what a stream answers who asks
static size_t granule = 2 << 20;  // the least of multicast objects: FAKECUDA_MULTICAST_GRANULE
static int failing_number;  // of the calls that begin with cuM, from 1; 0 for none
static long spare = -1;  // bytes that devices can still allocate, all together; below 0: any number
static volatile int operating;  // operations run on all devices until a test ends them
static long live;  // allocations, handles, reservations, mappings, streams, events, graphs
static unsigned long long next_handle = 0x1000;
static _Thread_local CUcontext current;
// A device's contexts: the primary one, one that a program has created, and a green one.
enum { PRIMARY = 0xc000, CREATED = 0xc100, GREEN = 0xc200 };
static int device_of(CUcontext c) { return (int)((unsigned long long)c & 0xff); }
static _Thread_local int called_by_stream;  // where the driver allows no call
static unsigned char arguments[112];
static const void* all_arguments;
static void forget_captures(void);

// The tests' own entries.
// The calls so far, until this thread asks again: other threads may add some meanwhile, and write over the
// record of an earlier test.
const char* fakeRecord(void) {
  static _Thread_local char* copy;
  free(copy);
  pthread_mutex_lock(&lock);
  copy = strndup(record, recorded);
  pthread_mutex_unlock(&lock);
  return copy;
}
long fakeLive(void) { return live; }
void fakeArguments(void* to) { memcpy(to, arguments, sizeof arguments); }
void fakeAllArguments(void* to, int bytes) { memcpy(to, all_arguments, bytes); }
// Sets the devices' attributes from now on.
void fakeGpu(int compute_capability, int processors, int threads) {
  capability = compute_capability;
  multiprocessors = processors;
  threads_of_multiprocessor = threads;
}
void fakeReset(void) {
  pthread_mutex_lock(&lock);
  recorded = 0;
  record[0] = 0;
  memset(failing, 0, sizeof failing);
  failing_number = 0;
  version = 13000;
  granule = 2 << 20;
  capturing = 0;
  variable_bytes = 0;
  lacking = 0;
  fakeGpu(90, 132, 2048);
  fabric = NO_FABRIC;
  fabric_imports = -1;
  corrupting = 0;
  compiled_for = 90;
  spinning = 0;
  loads_beside = 0;
  spare = -1;
  operating = 0;
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
void fakeCompiledFor(int capability) { compiled_for = capability; }
// From now on a kernel waits for another rank, or none does any more. How often code was loaded beside it.
int fakeSpin(int on) {
  spinning = on;
  return loads_beside;
}
// From now on devices have so many bytes, and what is freed; below 0 any number.
void fakeSpare(long bytes) { spare = bytes; }
// From now on operations run on all devices, or these have ended.
void fakeOperate(int on) { operating = on; }
void fakeFabric(int how) { fabric = how; }
void fakeLack(int attribute) { lacking = attribute; }
void fakeGranule(long bytes) { granule = bytes; }
void fakeWideOperations(int on) { wide_operations = on; }
void fakeVariable(int bytes) { variable_bytes = bytes; }
void fakeCapturing(int on) { capturing = on; }
void fakeFail(const char* call, int code) {
  memset(failing, 0, sizeof failing);
  snprintf(failing[0].name, sizeof failing[0].name, "%s", call);
  failing[0].code = code;
}
// "*" stands for all functions but those of devices and contexts, as after a kernel's fault.
static int is_named(const char* failing_name, const char* name) {
  if (strcmp(failing_name, "*") == 0)
    return strncmp(name, "cuCtx", 5) != 0 && strncmp(name, "cuDevice", 8) != 0;
  return strcmp(failing_name, name) == 0;
}
// The error of a function that a test lets fail; else success.
static CUresult fails(const char* name) {
  for (int f = 0; f < MOST_FAILING; f++)
    if (is_named(failing[f].name, name) && --failing[f].from <= 0)
      return (CUresult)failing[f].code;
  return CUDA_SUCCESS;
}

// For processes that have the fake in the driver's place: FAKECUDA_FAIL=function:code fails from now on,
// function:code:n from its n-th call on, several with commas in between; and what was called goes to
// the file FAKECUDA_RECORD at the end. FAKECUDA_FABRIC=yes or refused: there are fabric
// handles, of which FAKECUDA_FABRIC_IMPORTS can be imported. FAKECUDA_VERSION: what the driver speaks.
// FAKECUDA_GPU=capability:multiprocessors:threads of each: the devices' model.
__attribute__((constructor)) static void begin(void) {
  const char* fail = getenv("FAKECUDA_FAIL");
  const char* bytes = getenv("FAKECUDA_MULTICAST_GRANULE");
  if (bytes) granule = atol(bytes);
  const char* speaks = getenv("FAKECUDA_VERSION");
  if (speaks) version = atoi(speaks);
  const char* gpu = getenv("FAKECUDA_GPU");
  if (gpu) sscanf(gpu, "%d:%d:%d", &capability, &multiprocessors, &threads_of_multiprocessor);
  const char* handles = getenv("FAKECUDA_FABRIC");
  if (handles) fabric = strcmp(handles, "yes") == 0 ? FABRIC : REFUSED_FABRIC;
  const char* imports = getenv("FAKECUDA_FABRIC_IMPORTS");
  if (imports) fabric_imports = atoi(imports);
  for (int f = 0; f < MOST_FAILING && fail; f++) {
    sscanf(fail, "%63[^:]:%d:%d", failing[f].name, &failing[f].code, &failing[f].from);
    const char* comma = strchr(fail, ',');
    fail = comma ? comma + 1 : NULL;
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
  CUresult result = nth ? (CUresult)failure : fails(name);
  if (called_by_stream) result = CUDA_ERROR_NOT_PERMITTED;
  if (result == CUDA_SUCCESS) live += lives;
  pthread_mutex_unlock(&lock);
  return result;
}
// Takes device memory where it is scarce; false if there is not enough.
static int take(size_t n) {
  pthread_mutex_lock(&lock);
  int has = spare < 0 || (size_t)spare >= n;
  if (has && spare >= 0) spare -= n;
  pthread_mutex_unlock(&lock);
  return has;
}
static void give(size_t n) {
  pthread_mutex_lock(&lock);
  if (spare >= 0) spare += n;
  pthread_mutex_unlock(&lock);
}
static unsigned long long handle(void) { return __atomic_add_fetch(&next_handle, 0x10, __ATOMIC_RELAXED); }

#define NO 0, __func__
#define NEW 1, __func__
#define GONE -1, __func__
#define OR_FAIL(...)                   \
  do {                                 \
    CUresult result = call(__VA_ARGS__); \
    if (result) return result;         \
  } while (0)
typedef unsigned long long u64;
