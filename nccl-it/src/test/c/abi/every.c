// Calls every function of libnccl.so.2 with two ranks on GPU 0, which are threads, and compares the data where
// the driver is not that of the tests, whose kernels move nothing. wrong.c has the wrong arguments. Needs
// NCCL_MULTI_RANK_GPU_ENABLE=1, and CUDA_DEVICE_MAX_CONNECTIONS=32 for streams that do not wait for each other.
#include "checks.h"
#include "driver.h"

enum { RANKS = 2, COUNT = 1000, BYTES = RANKS * COUNT * (int)sizeof(float), MOST_SECONDS = 240 };
static ncclUniqueId id, parts[RANKS], grown;
static pthread_barrier_t together;

// A rank's buffers of RANKS * COUNT floats, and its stream.
static __thread int rank, other;
static __thread ncclComm_t comm;
static __thread float *from, *to;
static __thread void* stream;

static void meet(void) { pthread_barrier_wait(&together); }

// --- Data ----------------------------------------------------------------------------------------

// The i-th element of what a rank sends, without what tells it from others.
static float element(int i) { return i % 7; }

static void fill(float* into, float first) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++) host[i] = first + element(i);
  copy_in(into, host, sizeof host, stream);
}

// Each element is one number and so many times `element`.
static int holds(const float* at, float first, float times) {
  float host[COUNT];
  copy_out(host, at, sizeof host, stream);
  if (!moves_data()) return 1;
  for (int i = 0; i < COUNT; i++)
    if (host[i] != first + times * element(i)) {
      printf("rank %d: element %d is %g instead of %g\n", rank, i, host[i], first + times * element(i));
      return 0;
    }
  return 1;
}

// --- Operations ----------------------------------------------------------------------------------

static void collectives(void) {
  const ncclDataType_t F = ncclFloat32;
  fill(from, rank);
  OK(ncclAllReduce(from, to, COUNT, F, ncclSum, comm, stream));
  CHECK(holds(to, 1, 2));
  OK(ncclAllReduce(from, to, COUNT, F, ncclMax, comm, stream));
  CHECK(holds(to, 1, 1));
  OK(ncclReduce(from, rank == 1 ? to : NULL, COUNT, F, ncclAvg, 1, comm, stream));
  CHECK(rank != 1 || holds(to, 0.5f, 1));
  OK(ncclBroadcast(rank == 1 ? from : NULL, to, COUNT, F, 1, comm, stream));
  CHECK(holds(to, 1, 1));
  fill(to, rank);
  OK(ncclBcast(to, COUNT, F, 1, comm, stream));
  CHECK(holds(to, 1, 1));
  OK(ncclAllGather(from, to, COUNT, F, comm, stream));
  for (int r = 0; r < RANKS; r++) CHECK(holds(to + r * COUNT, r, 1));
  OK(ncclGather(from, rank ? NULL : to, COUNT, F, 0, comm, stream));
  for (int r = 0; r < RANKS && !rank; r++) CHECK(holds(to + r * COUNT, r, 1));
  for (int r = 0; r < RANKS; r++) fill(from + r * COUNT, 10 * rank + r);
  OK(ncclReduceScatter(from, to, COUNT, F, ncclSum, comm, stream));
  CHECK(holds(to, 10 + 2 * rank, 2));
  OK(ncclAlltoAll(from, to, COUNT, F, comm, stream));
  for (int r = 0; r < RANKS; r++) CHECK(holds(to + r * COUNT, 10 * r + rank, 1));
  OK(ncclScatter(rank ? NULL : from, to, COUNT, F, 0, comm, stream));
  CHECK(holds(to, rank, 1));
  OK(ncclGroupStart());
  OK(ncclSend(from, COUNT, F, other, comm, stream));
  OK(ncclRecv(to, COUNT, F, other, comm, stream));
  OK(ncclGroupEnd());
  CHECK(holds(to, 10 * other, 1));
  OK(ncclAllReduce(NULL, NULL, 0, F, ncclSum, comm, stream));
  REFUSED(ncclInvalidArgument, "root 2", ncclBcast(to, COUNT, F, RANKS, comm, stream));
}

static void operators(void) {
  ncclRedOp_t op;
  float half = 0.5f, three = 3, *scalar = allocate(sizeof *scalar);
  copy_in(scalar, &three, sizeof three, stream);
  fill(from, rank);
  OK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat32, ncclScalarHostImmediate, comm));
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, op, comm, stream));
  CHECK(holds(to, 0.5f, 1));
  OK(ncclRedOpDestroy(op, comm));
  OK(ncclRedOpCreatePreMulSum(&op, scalar, ncclFloat32, ncclScalarDevice, comm));
  OK(ncclReduce(from, to, COUNT, ncclFloat32, op, 0, comm, stream));
  CHECK(rank || holds(to, 3, 6));
  OK(ncclRedOpDestroy(op, comm));
  REFUSED(ncclInvalidArgument, "operator", ncclRedOpDestroy(op, comm));
  // Freeing waits for all kernels of a GPU, also for one of the other rank's that waits for this rank.
  meet();
  release(scalar);
  meet();
}

static void groups(void) {
  ncclSimInfo_t simulated = {sizeof simulated, SIMULATION_MAGIC, VERSION, -1};
  fill(from, rank);
  fill(to, 77);
  OK(ncclGroupStart());
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  OK(ncclGroupSimulateEnd(&simulated));
  CHECK(simulated.estimatedTime > 0);
  CHECK(holds(to, 77, 1));
  OK(ncclGroupStart());
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  REFUSED(ncclInvalidArgument, "peer 9", ncclSend(from, COUNT, ncclFloat32, 9, comm, stream));
  REFUSED(ncclInvalidArgument, "peer 9", ncclGroupEnd());
  CHECK(holds(to, 77, 1));
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  OK(ncclAllGather(from, from, 0, ncclFloat32, comm, stream));
  OK(ncclGroupEnd());
  OK(ncclGroupEnd());
  CHECK(holds(to, 1, 2));
}

// Registered buffers, windows, and what goes into another rank's window.
static void memory(void) {
  enum { SIZE = 1 << 21, PLACE = 4096 };
  void *registration, *pointer;
  float *shared, *beside;
  ncclWindow_t window, second;
  OK(ncclCommRegister(comm, from, BYTES, &registration));
  fill(from, rank);
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(holds(to, 1, 2));
  OK(ncclCommDeregister(comm, registration));
  OK(ncclMemAlloc((void**)&shared, SIZE));
  OK(ncclMemAlloc((void**)&beside, SIZE));
  OK(ncclCommWindowRegister(comm, shared, SIZE, &window, WINDOW_SYMMETRIC));
  OK(ncclCommWindowRegister(comm, beside, SIZE, &second, 0));
  OK(ncclWinGetUserPtr(comm, window, &pointer));
  CHECK(pointer == shared);
  OK(ncclGetPeerDevicePointer(window, PLACE, other, &pointer));
  CHECK(pointer);
  OK(ncclGetLsaDevicePointer(window, PLACE, ncclTeamLsa(comm).rank, &pointer));
  CHECK(pointer);
  OK(ncclGetLsaMultimemDevicePointer(window, 0, &pointer));  // none without multicast
  fill(shared, rank);
  meet();
  OK(ncclAllReduce(shared, shared, COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(holds(shared, 1, 2));
  fill(beside, 20 + rank);
  meet();
  ncclWaitSignalDesc_t awaited = {1, other, 0, 0};
  OK(ncclPutSignal(beside, COUNT, ncclFloat32, other, window, PLACE, 0, 0, 0, comm, stream));
  OK(ncclWaitSignal(1, &awaited, comm, stream));
  await(stream);
  CHECK(holds(shared + PLACE / sizeof(float), 20 + other, 1));
  OK(ncclSignal(other, 0, 0, 0, comm, stream));
  OK(ncclWaitSignal(1, &awaited, comm, stream));
  await(stream);
  REFUSED(ncclInvalidArgument, "offset", ncclGetPeerDevicePointer(window, SIZE, other, &pointer));
  REFUSED(ncclInvalidArgument, "peer", ncclSignal(RANKS, 0, 0, 0, comm, stream));
  meet();
  OK(ncclCommWindowDeregister(comm, second));
  OK(ncclCommWindowDeregister(comm, window));
  REFUSED(ncclInvalidArgument, "window", ncclWinGetUserPtr(comm, window, &pointer));
  meet();
  OK(ncclMemFree(shared));
  OK(ncclMemFree(beside));
}

// --- Questions -----------------------------------------------------------------------------------

static void questions(void) {
  int n, mine, gpu;
  ncclResult_t state;
  OK(ncclCommCount(comm, &n));
  OK(ncclCommUserRank(comm, &mine));
  OK(ncclCommCuDevice(comm, &gpu));
  CHECK(n == RANKS && mine == rank && gpu == 0);
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  ncclTeam_t world = ncclTeamWorld(comm), lsa = ncclTeamLsa(comm), rail = ncclTeamRail(comm);
  CHECK(world.nRanks == RANKS && world.rank == rank && world.stride == 1);
  CHECK(lsa.nRanks * rail.nRanks == RANKS && lsa.stride == 1 && rail.stride == lsa.nRanks);
  CHECK(ncclTeamRankToWorld(comm, world, other) == other);
  CHECK(ncclTeamRankToLsa(comm, world, rank) == lsa.rank);
  ncclCommProperties_t properties;
  memset(&properties, 0, sizeof properties);
  properties.size = sizeof properties;
  properties.magic = (unsigned)CONFIG_MAGIC;
  OK(ncclCommQueryProperties(comm, &properties));
  CHECK(properties.rank == rank && properties.nRanks == RANKS && properties.cudaDev == 0);
  CHECK(properties.nLsaTeams == rail.nRanks && properties.hostRmaSupport && !properties.deviceApiSupport);
}

static void suspension(void) {
  uint64_t bytes, suspended;
  OK(ncclCommMemStats(comm, 3, &bytes));
  CHECK(bytes > 0);
  meet();
  OK(ncclCommSuspend(comm, 1));
  OK(ncclCommMemStats(comm, 1, &suspended));
  CHECK(suspended == 1);
  REFUSED(ncclInvalidUsage, "suspended", ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  OK(ncclCommResume(comm));
  meet();
  fill(from, rank);
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, stream));
  CHECK(holds(to, 1, 2));
}

// Programs that need them get an error that says what to use instead.
static void device_functions(void) {
  char any[256] = {0};
  void* pointer;
  ncclTeam_t team = ncclTeamWorld(comm);
  ncclMultimemHandle_t multimem = {NULL};
  REFUSED(ncclInvalidUsage, "device", ncclDevCommCreate(comm, any, any));
  REFUSED(ncclInvalidUsage, "device", ncclDevCommDestroy(comm, any));
  REFUSED(ncclInvalidUsage, "device", ncclGetMultimemDevicePointer(NULL, 0, multimem, &pointer));
  REFUSED(ncclInvalidUsage, "device", ncclLsaBarrierCreateRequirement(team, 1, any, any));
  REFUSED(ncclInvalidUsage, "device", ncclGinBarrierCreateRequirement(comm, team, 1, any, any));
  REFUSED(ncclInvalidUsage, "device", ncclLLA2ACreateRequirement(1, 1, any, any));
  REFUSED(ncclInvalidUsage, "device", ncclGinOutboxCreateRequirement(1, 1, any, any));
  REFUSED(ncclInvalidUsage, "device", ncclGinInboxA2ACreateRequirement(team, 1, 1, any, any));
  CHECK(ncclLLA2ACalcSlots(3, 12) == 6);
}

// --- Communicators -------------------------------------------------------------------------------

static void await_creation(ncclComm_t created) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) OK(ncclCommGetAsyncError(created, &state));
  CHECK(state == ncclSuccess);
}

// Memory is mapped for a new communicator, which waits for all kernels of a GPU, also for one of the other rank's
// that waits for this rank.
static void sum_with(ncclComm_t of, float first, float times) {
  fill(from, rank);
  meet();
  OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, of, stream));
  CHECK(holds(to, first, times));
}

static void children(void) {
  ncclComm_t both, own, rest, large;
  int excluded = 1, n;
  OK(ncclCommSplit(comm, 0, -rank, &both, NULL));
  sum_with(both, 1, 2);
  OK(ncclCommSplit(comm, rank, 0, &own, NULL));
  sum_with(own, rank, 1);
  OK(ncclCommDestroy(own));
  OK(ncclCommDestroy(both));
  if (!rank) {
    OK(ncclCommShrink(comm, &excluded, 1, &rest, NULL, 0));
    OK(ncclCommCount(rest, &n));
    CHECK(n == 1);
    OK(ncclCommGetUniqueId(rest, &grown));
  }
  meet();
  OK(ncclCommGrow(rank ? NULL : rest, RANKS, &grown, rank ? 1 : -1, &large, NULL));
  sum_with(large, 1, 2);
  if (!rank) OK(ncclCommDestroy(rest));
  meet();
  OK(ncclCommRevoke(large, 0));
  REFUSED(ncclInvalidUsage, "revoked", ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, large, stream));
  meet();
  OK(ncclCommAbort(large));
}

static void begin_rank(int which) {
  rank = which;
  other = 1 - which;
  void* context = use_gpu(0);
  from = allocate(BYTES);
  to = allocate(BYTES);
  stream = create_stream();
  meet();
  CHECK(current_context() == context);
}

static void end_rank(void) {
  meet();
  release(from);
  release(to);
  CHECK(!driver.destroy_stream(stream));
}

static void whole_rank(int which) {
  begin_rank(which);
  void* context = current_context();
  OK(ncclCommInitRank(&comm, RANKS, id, rank));
  meet();
  questions();
  collectives();
  operators();
  groups();
  memory();
  suspension();
  device_functions();
  children();
  meet();
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));
  REFUSED(ncclInvalidArgument, "not a communicator", ncclCommDestroy(comm));
  CHECK(current_context() == context);
  end_rank();
}

// Of several unique ids, and without waiting.
static void other_creations(int which) {
  begin_rank(which);
  OK(ncclCommInitRankScalable(&comm, RANKS, rank, RANKS, parts, NULL));
  sum_with(comm, 1, 2);
  OK(ncclCommDestroy(comm));
  meet();
  ncclConfig_t given = newest();
  given.blocking = 0;
  GIVES(ncclInProgress, ncclCommInitRankConfig(&comm, RANKS, id, rank, &given));
  await_creation(comm);
  sum_with(comm, 1, 2);
  GIVES(ncclInProgress, ncclCommFinalize(comm));
  await_creation(comm);
  OK(ncclCommDestroy(comm));
  end_rank();
}

// A rank alone may use the streams that several ranks of a GPU would wait in for each other.
static void streams_of_all_threads(void) {
  void* known[] = {NULL, (void*)1, (void*)2};  // and cudaStreamLegacy, cudaStreamPerThread
  int gpu = 0;
  use_gpu(0);
  from = allocate(BYTES);
  to = allocate(BYTES);
  OK(ncclCommInitAll(&comm, 1, &gpu));
  for (int s = 0; s < 3; s++) {
    fill(from, 5);
    OK(ncclAllReduce(from, to, COUNT, ncclFloat32, ncclSum, comm, known[s]));
    CHECK(!driver.synchronize(known[s]));
    CHECK(holds(to, 5, 1));
  }
  OK(ncclCommDestroy(comm));
  release(from);
  release(to);
}

// --- Parameters ----------------------------------------------------------------------------------

static void parameters(void) {
  ncclParamHandle_t handle;
  const char *text, **names;
  int length;
  int8_t i8;
  int16_t i16;
  int32_t i32;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64;
  OK(ncclParamBind(&handle, "NCCL_MULTI_RANK_GPU_ENABLE"));
  OK(ncclParamGetI8(handle, &i8));
  OK(ncclParamGetI16(handle, &i16));
  OK(ncclParamGetI32(handle, &i32));
  OK(ncclParamGetI64(handle, &i64));
  OK(ncclParamGetU8(handle, &u8));
  OK(ncclParamGetU16(handle, &u16));
  OK(ncclParamGetU32(handle, &u32));
  OK(ncclParamGetU64(handle, &u64));
  CHECK(i8 == 1 && i16 == 1 && i32 == 1 && i64 == 1 && u8 == 1 && u16 == 1 && u32 == 1 && u64 == 1);
  OK(ncclParamGet(handle, &i64, sizeof i64, &length));
  CHECK(length == 8 && i64 == 1);
  OK(ncclParamGetStr(handle, &text));
  CHECK(!strcmp(text, "1"));
  OK(ncclParamGetParameter("NCCL_MULTI_RANK_GPU_ENABLE", &text, &length));
  CHECK(!strcmp(text, "1") && length == 1);
  OK(ncclParamGetAllParameterKeys(&names, &length));
  CHECK(length > 50);
  REFUSED(ncclInvalidArgument, "NCCL_NOTHING", ncclParamBind(&handle, "NCCL_NOTHING"));
  CHECK(freopen("/dev/null", "w", stderr));
  ncclParamDumpAll();
}

int main(void) {
  int version;
  alarm(MOST_SECONDS);
  setenv("NCCL4J_TIMEOUT", "60", 0);  // so that an operation that waits is named
  OK(ncclGetVersion(&version));
  CHECK(version == VERSION && *ncclGetErrorString(ncclRemoteError) && !*ncclGetLastError(NULL));
  ncclResetDebugInit();
  ncclResetDebugInitInternal();
  load_driver();
  use_gpu(0);
  pthread_barrier_init(&together, NULL, RANKS);
  OK(ncclGetUniqueId(&id));
  run_ranks(RANKS, whole_rank);
  OK(ncclGetUniqueId(&id));
  for (int part = 0; part < RANKS; part++) OK(ncclGetUniqueId(parts + part));
  run_ranks(RANKS, other_creations);
  streams_of_all_threads();
  parameters();
  puts("all was right");
  return 0;
}
