// Calls libnccl.so.2 with communicators on GPUs of the fake driver, whose kernels move nothing: which
// GPU a call is for, and what it leaves as it was.
#include "checks.h"
#include <cuda.h>

enum { GPUS = 2, COUNT = 1024, BYTES = COUNT * 4, FOR_BOTH = 6 << 20 };
static ncclUniqueId id, parts[GPUS], grown;
static pthread_barrier_t together;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;

// Of the fake driver.
const char* fakeRecord(void);
void fakeRenew(unsigned long long stream);
void fakeSpare(long bytes);
void fakeOperate(int on);

// Number of the driver's calls whose record begins with a text.
static int calls(const char* begin) {
  int found = 0;
  for (const char* at = fakeRecord(); (at = strstr(at, begin)); at++) found++;
  return found;
}

// How often a stream has waited for an event.
static int waits(CUstream stream) {
  char call[64];
  snprintf(call, sizeof call, "cuStreamWaitEvent(%llx,", (unsigned long long)stream);
  return calls(call);
}

static CUcontext current(void) {
  CUcontext context;
  CHECK(!cuCtxGetCurrent(&context));
  return context;
}

static CUcontext use(int gpu) {
  CUcontext context;
  pthread_mutex_lock(&one);
  CHECK(!cuDevicePrimaryCtxRetain(&context, gpu));
  pthread_mutex_unlock(&one);
  CHECK(!cuCtxSetCurrent(context));
  return context;
}

// While a stream is captured the driver does not tell its number, and that of no other one without being asked to.
static void captures(ncclComm_t comm, void* from, void* to, CUstream known) {
  CUstream fresh;
  CUgraph graph;
  CHECK(!cuStreamCreate(&fresh, CU_STREAM_NON_BLOCKING));
  CUstream captured[] = {known, fresh};
  for (int c = 0; c < 2; c++) {
    CHECK(!cuStreamBeginCapture(captured[c], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, captured[c]));
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, captured[1 - c]));
    CHECK(!cuStreamEndCapture(captured[c], &graph));
    CHECK(!cuGraphDestroy(graph));
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, captured[c]));
  }
  CHECK(!cuStreamDestroy(fresh));
}

// A graph of a part of a group would repeat that part without the rest.
static void group_of_two_captures(ncclComm_t comm, void* from, void* to, CUstream captured) {
  CUstream other;
  CUgraph graph;
  CHECK(!cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(!cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  for (int first = 0; first < 2; first++) {
    OK(ncclGroupStart());
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, first ? other : captured));
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, first ? captured : other));
    REFUSED(ncclInvalidUsage, "is not being captured", ncclGroupEnd());
  }
  CHECK(!cuStreamEndCapture(captured, &graph));
  CHECK(!cuGraphDestroy(graph));
  CHECK(!cuStreamDestroy(other));
}

// The operations that `rank` does not call in each kind of stream.
static void other_operations(ncclComm_t comm, void* from, void* to, CUstream in) {
  ncclRedOp_t op;
  float half = 0.5f;
  OK(ncclGather(from, to, COUNT, ncclFloat32, 1, comm, in));
  OK(ncclScatter(from, to, COUNT, ncclFloat32, 0, comm, in));
  OK(ncclBcast(to, COUNT, ncclFloat32, 1, comm, in));
  void* scalars[] = {&half, from};
  ncclScalarResidence_t places[] = {ncclScalarHostImmediate, ncclScalarDevice};
  for (int i = 0; i < 2; i++) {
    OK(ncclRedOpCreatePreMulSum(&op, scalars[i], ncclFloat32, places[i], comm));
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, op, comm, in));
    OK(ncclReduceScatter(from, to, COUNT, ncclFloat32, op, comm, in));
    OK(ncclReduce(from, to, COUNT, ncclFloat32, op, 0, comm, in));
    OK(ncclGroupStart());
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, op, comm, in));
    OK(ncclGroupEnd());
    OK(ncclRedOpDestroy(op, comm));
    REFUSED(ncclInvalidArgument, "operator",
            ncclAllReduce(from, to, COUNT, ncclFloat32, op, comm, in));
  }
  ncclSimInfo_t simulated = {sizeof simulated, SIMULATION_MAGIC, VERSION, -1};
  OK(ncclGroupStart());
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, in));
  OK(ncclGroupSimulateEnd(&simulated));
  CHECK(simulated.estimatedTime > 0);
}

static void wrong_arguments(ncclComm_t comm, void* from, void* to, CUstream in) {
  REFUSED(ncclInvalidArgument, "comm is NULL", ncclGather(from, to, 1, ncclInt32, 0, NULL, in));
  REFUSED(ncclInvalidArgument, "root 2", ncclScatter(from, to, 1, ncclInt32, 2, comm, in));
  REFUSED(ncclInvalidArgument, "root -1", ncclBcast(to, 1, ncclInt32, -1, comm, in));
  REFUSED(ncclInvalidArgument, "peer 2", ncclSend(from, 1, ncclInt32, 2, comm, in));
  REFUSED(ncclInvalidArgument, "not a type", ncclRecv(to, 1, 12, 0, comm, in));
  REFUSED(ncclInvalidArgument, "operator", ncclReduce(from, to, 1, ncclInt32, 99, 0, comm, in));
  REFUSED(ncclInvalidArgument, "count",
          ncclAllGather(from, to, SIZE_MAX, ncclInt32, comm, in));
  REFUSED(ncclInvalidArgument, "null", ncclAllReduce(NULL, to, 1, ncclInt32, ncclSum, comm, in));
  // Of a group with a wrong call nothing is launched.
  CUstream own;
  CHECK(!cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  OK(ncclGroupStart());
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, own));
  REFUSED(ncclInvalidArgument, "root 7", ncclBroadcast(from, to, 1, ncclInt32, 7, comm, own));
  REFUSED(ncclInvalidArgument, "root 7", ncclGroupEnd());
  CHECK(!cuStreamDestroy(own));
}

// Number of puts of 8 floats in a stream.
static int puts_in(CUstream in) {
  char call[64];
  snprintf(call, sizeof call, "cuMemcpyAsync(32,%llx)", (unsigned long long)in);
  return calls(call);
}

static void one_sided(ncclComm_t comm, int rank, CUstream in) {
  void *memory, *beside, *pointer;
  ncclWindow_t window, second;
  enum { SIZE = 1 << 21 };
  OK(ncclMemAlloc(&memory, SIZE));
  OK(ncclMemAlloc(&beside, SIZE));
  OK(ncclCommWindowRegister(comm, memory, SIZE, &window, 1));
  OK(ncclCommWindowRegister(comm, beside, SIZE, &second, 0));
  OK(ncclWinGetUserPtr(comm, window, &pointer));
  CHECK(pointer == memory);
  OK(ncclGetPeerDevicePointer(window, 64, rank, &pointer));
  CHECK(pointer);
  OK(ncclGetPeerDevicePointer(window, 64, 1 - rank, &pointer));
  CHECK(pointer);
  OK(ncclGetLsaDevicePointer(window, 64, 1 - rank, &pointer));
  CHECK(pointer);
  OK(ncclGetLsaMultimemDevicePointer(window, 0, &pointer));
  REFUSED(ncclInvalidArgument, "rank 2", ncclGetPeerDevicePointer(window, 0, 2, &pointer));
  REFUSED(ncclInvalidArgument, "offset", ncclGetPeerDevicePointer(window, SIZE, 0, &pointer));
  ncclWaitSignalDesc_t awaited[] = {{1, 1 - rank, 0, 0}, {1, 1 - rank, 0, 0}};
  int before = puts_in(in);
  OK(ncclPutSignal(beside, 8, ncclFloat32, 1 - rank, window, 256, 0, 0, 0, comm, in));
  CHECK(puts_in(in) == before + 1);
  OK(ncclSignal(1 - rank, 0, 0, 0, comm, in));
  OK(ncclWaitSignal(2, awaited, comm, in));
  REFUSED(ncclInvalidArgument, "fit",
          ncclPutSignal(beside, SIZE / 4, ncclFloat32, 1 - rank, window, 64, 0, 0, 0, comm, in));
  REFUSED(ncclInvalidArgument, "peer", ncclSignal(2, 0, 0, 0, comm, in));
  // A group sends at its end, unless it fails or is simulated.
  ncclSimInfo_t simulated = {sizeof simulated, SIMULATION_MAGIC, VERSION, -1};
  for (int way = 0; way < 3; way++) {
    OK(ncclGroupStart());
    OK(ncclPutSignal(beside, 8, ncclFloat32, 1 - rank, window, 256, 0, 0, 0, comm, in));
    if (way == 0) REFUSED(ncclInvalidArgument, "peer", ncclSignal(2, 0, 0, 0, comm, in));
    CHECK(puts_in(in) == before + 1);
    if (way == 0) REFUSED(ncclInvalidArgument, "peer", ncclGroupEnd());
    if (way == 1) OK(ncclGroupSimulateEnd(&simulated));
    if (way == 2) OK(ncclGroupEnd());
    CHECK(puts_in(in) == before + 1 + (way == 2));
  }
  OK(ncclWaitSignal(1, awaited, comm, in));
  OK(ncclCommWindowDeregister(comm, window));
  OK(ncclCommWindowDeregister(comm, second));
  REFUSED(ncclInvalidArgument, "window", ncclWinGetUserPtr(comm, window, &pointer));
  OK(ncclMemFree(memory));
  OK(ncclMemFree(beside));
}

static void life(ncclComm_t comm, int rank, int gpu, void* from, void* to, CUstream in) {
  uint64_t bytes, suspended;
  OK(ncclCommMemStats(comm, 3, &bytes));
  CHECK(bytes > 0);
  OK(ncclCommSuspend(comm, 1));
  OK(ncclCommMemStats(comm, 1, &suspended));
  CHECK(suspended == 1);
  REFUSED(ncclInvalidUsage, "suspended",
          ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, in));
  OK(ncclCommResume(comm));
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, in));
  ncclCommProperties_t properties;
  memset(&properties, 0, sizeof properties);
  properties.size = sizeof properties;
  properties.magic = (unsigned)CONFIG_MAGIC;
  OK(ncclCommQueryProperties(comm, &properties));
  CHECK(properties.rank == rank && properties.nRanks == GPUS && properties.cudaDev == gpu);
  CHECK(properties.nvmlDev == gpu && properties.nLsaTeams == 1 && properties.hostRmaSupport);
  CHECK(!properties.deviceApiSupport && !properties.multimemSupport);
}

static void await(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
}

// Communicators that do not block, and those that are made of others; at the end they are revoked or
// aborted.
static void children(int rank) {
  int gpu = GPUS - 1 - rank, excluded = 1, n;
  CUcontext context = use(gpu);
  CUdeviceptr data;
  CUstream stream;
  ncclComm_t comm, rest, large;
  CHECK(!cuMemAlloc(&data, BYTES));
  CHECK(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void* buffer = (void*)data;
  ncclConfig_t given = newest();
  given.blocking = 0;
  GIVES(ncclInProgress, ncclCommInitRankConfig(&comm, GPUS, id, rank, &given));
  await(comm);
  OK(ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, comm, stream));
  GIVES(ncclInProgress, ncclCommFinalize(comm));
  await(comm);
  OK(ncclCommDestroy(comm));
  OK(ncclCommInitRankScalable(&comm, GPUS, rank, GPUS, parts, NULL));
  if (rank == 0) {
    OK(ncclCommShrink(comm, &excluded, 1, &rest, NULL, 0));
    OK(ncclCommCount(rest, &n));
    CHECK(n == 1);
    OK(ncclCommGetUniqueId(rest, &grown));
    pthread_barrier_wait(&together);
    OK(ncclCommGrow(rest, GPUS, &grown, -1, &large, NULL));
    OK(ncclCommDestroy(rest));
  } else {
    pthread_barrier_wait(&together);
    OK(ncclCommGrow(NULL, GPUS, &grown, 1, &large, NULL));
  }
  OK(ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, large, stream));
  OK(ncclCommRevoke(comm, 0));
  REFUSED(ncclInvalidUsage, "revoked",
          ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, comm, stream));
  REFUSED(ncclInvalidArgument, "after ncclCommRevoke", ncclCommFinalize(comm));
  pthread_barrier_wait(&together);
  OK(ncclCommAbort(comm));
  OK(ncclCommAbort(large));
  CHECK(current() == context);
  CHECK(!cuStreamDestroy(stream));
  CHECK(!cuMemFree(data));
}

static void rank(int rank) {
  int gpu = GPUS - 1 - rank, found;
  CUcontext context = use(gpu);
  ncclComm_t comm, half;
  OK(ncclCommInitRank(&comm, GPUS, id, rank));
  CHECK(current() == context);
  OK(ncclCommCuDevice(comm, &found));
  CHECK(found == gpu);
  CUdeviceptr data;
  CUstream stream;
  CHECK(!cuMemAlloc(&data, 4 * BYTES));
  CHECK(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  void *from = (void*)data, *to = (void*)(data + 2 * BYTES);
  cudaStream_t streams[] = {stream, NULL, (void*)1, (void*)2};
  for (int s = 0; s < 4; s++) {
    cudaStream_t in = streams[s];
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, in));
    OK(ncclBroadcast(from, to, COUNT, ncclFloat32, 0, comm, in));
    OK(ncclReduce(from, to, COUNT, ncclFloat32, ncclMax, 0, comm, in));
    OK(ncclAllGather(from, to, COUNT, ncclFloat32, comm, in));
    OK(ncclReduceScatter(from, to, COUNT, ncclFloat32, ncclSum, comm, in));
    OK(ncclAlltoAll(from, to, COUNT, ncclFloat32, comm, in));
    OK(ncclGroupStart());
    OK(ncclSend(from, COUNT, ncclFloat32, 1 - rank, comm, in));
    OK(ncclRecv(to, COUNT, ncclFloat32, 1 - rank, comm, in));
    OK(ncclGroupEnd());
    CHECK(current() == context);
  }
  // The stream was destroyed with work under way, and the next one has its handle.
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  int before = waits(stream);
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(waits(stream) == before);
  fakeRenew((unsigned long long)stream);
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(waits(stream) == before + 1);
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(waits(stream) == before + 1);
  captures(comm, from, to, stream);
  REFUSED(ncclInvalidArgument, "aligned",
          ncclAllReduce((char*)from + 1, to, 8, ncclFloat32, ncclSum, comm, stream));
  // What is moved need not be aligned.
  OK(ncclAllGather((char*)from + 1, (char*)to + 2, 8, ncclFloat32, comm, stream));
  OK(ncclBroadcast((char*)from + 1, (char*)to + 3, 8, ncclFloat64, 1, comm, stream));
  OK(ncclAlltoAll((char*)from + 1, (char*)to + 1, 8, ncclInt64, comm, stream));
  OK(ncclGroupStart());
  OK(ncclSend((char*)from + 2, 8, ncclFloat32, 1 - rank, comm, stream));
  OK(ncclRecv((char*)to + 1, 8, ncclFloat32, 1 - rank, comm, stream));
  OK(ncclGroupEnd());
  group_of_two_captures(comm, from, to, stream);
  other_operations(comm, from, to, stream);
  wrong_arguments(comm, from, to, stream);
  one_sided(comm, rank, stream);
  life(comm, rank, gpu, from, to, stream);
  CHECK(current() == context);
  int host[4];
  REFUSED(ncclInvalidArgument, "driver",
          ncclAllReduce(host, to, 4, ncclFloat32, ncclSum, comm, stream));
  REFUSED(ncclInvalidArgument, "stream",
          ncclAllReduce(from, to, 4, ncclFloat32, ncclSum, comm, (void*)77));
  OK(ncclCommSplit(comm, 0, rank, &half, NULL));
  CHECK(current() == context);
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, half, stream));
  void *memory, *registration;
  ncclWindow_t window;
  OK(ncclMemAlloc(&memory, 1 << 21));
  OK(ncclCommWindowRegister(comm, memory, 1 << 21, &window, 1));
  OK(ncclAllReduce(memory, memory, COUNT, ncclFloat32, ncclSum, comm, stream));
  OK(ncclCommWindowDeregister(comm, window));
  OK(ncclCommRegister(comm, from, BYTES, &registration));
  OK(ncclCommDeregister(comm, registration));
  OK(ncclMemFree(memory));
  CHECK(current() == context);
  OK(ncclCommDestroy(half));
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
  CHECK(current() == context);
  CHECK(!cuStreamDestroy(stream));
  CHECK(!cuMemFree(data));
}

static void without_context(void) {
  ncclComm_t comm;
  int gpu;
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&comm, 1, id, 0));
  OK(ncclCommCuDevice(comm, &gpu));
  CHECK(gpu == 0 && !current());
  OK(ncclCommDestroy(comm));
}

// As with NCCL, all GPUs that the process sees may access what ncclMemAlloc gives, also one that it has
// not used; DropInTest looks for it.
static void memory_for_both(void) {
  void *first, *second;
  use(0);
  OK(ncclMemAlloc(&first, FOR_BOTH));
  CHECK(strstr(fakeRecord(), "cuMemSetAccess(6291456,1,1,3,1)"));
  use(1);
  OK(ncclMemAlloc(&second, FOR_BOTH));
  OK(ncclMemFree(first));
  OK(ncclMemFree(second));
  CHECK(!cuCtxSetCurrent(NULL));
}

static void* end_operations(void* unused) {
  while (!strstr(fakeRecord(), "cuMemCreate(no memory)")) usleep(1000);
  fakeOperate(0);
  return unused;
}

// Memory is free when the operations have ended that ran as ncclMemFree was called.
static void scarce_memory(void) {
  void* memory;
  pthread_t thread;
  use(0);
  OK(ncclMemAlloc(&memory, 8 << 20));
  fakeOperate(1);
  OK(ncclMemFree(memory));
  fakeSpare(0);
  CHECK(!pthread_create(&thread, NULL, end_operations, NULL));
  OK(ncclMemAlloc(&memory, 8 << 20));
  CHECK(!pthread_join(thread, NULL));
  void* more;
  REFUSED(ncclUnhandledCudaError, "CUDA_ERROR_OUT_OF_MEMORY", ncclMemAlloc(&more, 9 << 20));
  fakeSpare(-1);
  OK(ncclMemFree(memory));
  CHECK(!cuCtxSetCurrent(NULL));
}

int main(void) {
  CHECK(!cuInit(0));
  scarce_memory();
  memory_for_both();
  OK(ncclGetUniqueId(&id));
  run_ranks(GPUS, rank);
  OK(ncclGetUniqueId(&id));
  for (int i = 0; i < GPUS; i++) OK(ncclGetUniqueId(parts + i));
  pthread_barrier_init(&together, NULL, GPUS);
  run_ranks(GPUS, children);
  without_context();
  ncclComm_t comms[GPUS];
  int gpus[GPUS] = {1, 0}, same[GPUS] = {0, 0}, missing = 99;
  OK(ncclCommInitAll(comms, GPUS, gpus));
  int gpu;
  OK(ncclCommCuDevice(comms[0], &gpu));
  CHECK(gpu == 1);
  for (int r = 0; r < GPUS; r++) OK(ncclCommDestroy(comms[r]));
  REFUSED(ncclInvalidUsage, "NCCL_MULTI_RANK_GPU_ENABLE", ncclCommInitAll(comms, GPUS, same));
  REFUSED(ncclInvalidArgument, "99", ncclCommInitAll(comms, 1, &missing));
  puts("all was right");
  return 0;
}
