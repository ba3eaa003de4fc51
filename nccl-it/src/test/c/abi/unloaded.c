// Loads the library by its path as a plug-in does, closes it while a communicator is there, and loads it again.
// The library stays in the process, since its JVM does. Needs NCCL4J_DEVICE=host.
//   unloaded LIBRARY
#include "../../../main/c/nccl.h"
#include <dlfcn.h>

// Of the library that is loaded at the time; the program itself is linked with none.
static const char* (*last_error)(ncclComm_t);
#define ncclGetLastError last_error
#include "checks.h"

static struct {
  void* library;
  ncclResult_t (*create)(ncclComm_t*, int, const int*);
  ncclResult_t (*sum)(const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
  ncclResult_t (*destroy)(ncclComm_t);
} nccl;

static void load(const char* path) {
  nccl.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!nccl.library) puts(dlerror());
  CHECK(nccl.library);
  last_error = dlsym(nccl.library, "ncclGetLastError");
  nccl.create = dlsym(nccl.library, "ncclCommInitAll");
  nccl.sum = dlsym(nccl.library, "ncclAllReduce");
  nccl.destroy = dlsym(nccl.library, "ncclCommDestroy");
  CHECK(last_error && nccl.create && nccl.sum && nccl.destroy);
}

static ncclComm_t comm;

static void use(int value) {
  int data = value;
  OK(nccl.sum(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(data == value);
}

// Its end comes when the library is closed.
static void* use_elsewhere(void* closed) {
  use(1);
  pthread_barrier_wait(closed);
  pthread_barrier_wait(closed);
  return NULL;
}

int main(int n, char** arguments) {
  pthread_barrier_t closed;
  pthread_t thread;
  CHECK(n == 2);
  alarm(150);
  load(arguments[1]);
  CHECK(!dlclose(nccl.library));  // before the first call
  load(arguments[1]);
  OK(nccl.create(&comm, 1, NULL));
  CHECK(!pthread_barrier_init(&closed, NULL, 2));
  CHECK(!pthread_create(&thread, NULL, use_elsewhere, &closed));
  pthread_barrier_wait(&closed);
  CHECK(!dlclose(nccl.library));
  pthread_barrier_wait(&closed);
  CHECK(!pthread_join(thread, NULL));
  load(arguments[1]);
  use(2);
  CHECK(!dlclose(nccl.library));
  load(arguments[1]);
  OK(nccl.destroy(comm));
  OK(nccl.create(&comm, 1, NULL));
  use(3);
  CHECK(!dlclose(nccl.library));
  puts("all was right");
  return 0;
}
