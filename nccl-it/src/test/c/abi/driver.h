// GPUs as programs use them: the driver's functions, by the names of its library, since no header of CUDA is
// needed. With NCCL4J_DEVICE=host there is none: memory is the host's, and calls have ended when they return.
#include <dlfcn.h>

static struct {
  int (*init)(unsigned);
  int (*retain)(void**, int);
  int (*make_current)(void*);
  int (*find_current)(void**);
  int (*allocate)(unsigned long long*, size_t);
  int (*release)(unsigned long long);
  int (*create_stream)(void**, unsigned);
  int (*destroy_stream)(void*);
  int (*synchronize)(void*);
  int (*copy_in)(unsigned long long, const void*, size_t, void*);
  int (*copy_out)(void*, unsigned long long, size_t, void*);
  void (*operate)(int);  // of the tests' driver alone, whose kernels move nothing
} driver;

enum { STREAM_NON_BLOCKING = 1 };

static inline void* function(void* library, const char* name) {
  void* found = dlsym(library, name);
  CHECK(found);
  return found;
}

static inline int is_on_host(void) {
  const char* device = getenv("NCCL4J_DEVICE");
  return device && !strcmp(device, "host");
}

// Once, by one thread.
static inline void load_driver(void) {
  if (is_on_host()) return;
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  CHECK(library);
  driver.init = function(library, "cuInit");
  driver.retain = function(library, "cuDevicePrimaryCtxRetain");
  driver.make_current = function(library, "cuCtxSetCurrent");
  driver.find_current = function(library, "cuCtxGetCurrent");
  driver.allocate = function(library, "cuMemAlloc_v2");
  driver.release = function(library, "cuMemFree_v2");
  driver.create_stream = function(library, "cuStreamCreate");
  driver.destroy_stream = function(library, "cuStreamDestroy_v2");
  driver.synchronize = function(library, "cuStreamSynchronize");
  driver.copy_in = function(library, "cuMemcpyHtoDAsync_v2");
  driver.copy_out = function(library, "cuMemcpyDtoHAsync_v2");
  driver.operate = dlsym(library, "fakeOperate");
  CHECK(!driver.init(0));
}

// False on the tests' driver: what arrives there is not what was sent.
static inline int moves_data(void) { return !driver.operate; }

static inline void* use_gpu(int gpu) {
  void* context;
  CHECK(!driver.retain(&context, gpu) && !driver.make_current(context));
  return context;
}

static inline void* current_context(void) {
  void* context;
  CHECK(!driver.find_current(&context));
  return context;
}

// Memory of the current GPU, or of the host.
static inline void* allocate(size_t bytes) {
  unsigned long long address;
  if (!driver.init) {
    void* memory = calloc(1, bytes);
    CHECK(memory);
    return memory;
  }
  CHECK(!driver.allocate(&address, bytes));
  return (void*)(uintptr_t)address;
}

static inline void release(void* memory) {
  if (driver.init) CHECK(!driver.release((uintptr_t)memory));
  else free(memory);
}

static inline void* create_stream(void) {
  void* made = NULL;
  if (driver.init) CHECK(!driver.create_stream(&made, STREAM_NON_BLOCKING));
  return made;
}

static inline void await(void* stream) {
  if (stream) CHECK(!driver.synchronize(stream));
}

static inline void copy_in(void* to, const void* from, size_t bytes, void* stream) {
  if (!driver.init) memcpy(to, from, bytes);
  else CHECK(!driver.copy_in((uintptr_t)to, from, bytes, stream) && !driver.synchronize(stream));
}

// A copy to the host's memory that is not pinned may keep the driver from other threads' launches until the stream
// has got there, so it begins when that has: a rank that waits for another of its process would wait for ever.
static inline void copy_out(void* to, const void* from, size_t bytes, void* stream) {
  if (!driver.init) memcpy(to, from, bytes);
  else CHECK(!driver.synchronize(stream) && !driver.copy_out(to, (uintptr_t)from, bytes, stream) && !driver.synchronize(stream));
}
