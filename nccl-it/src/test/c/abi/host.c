// Calls every function of libnccl.so.2 with communicators on the host, from several threads, and
// compares the data. Needs NCCL4J_DEVICE=host.
#include "checks.h"

enum { RANKS = 3, COUNT = 1000 };
static ncclUniqueId id, more[2];
static pthread_barrier_t together;

static void meet(void) { pthread_barrier_wait(&together); }

static void collectives(ncclComm_t comm, int rank) {
  static __thread float one[COUNT], all[RANKS * COUNT], other[RANKS * COUNT];
  for (int i = 0; i < COUNT; i++) one[i] = rank + i;
  OK(ncclAllReduce(one, all, COUNT, ncclFloat32, ncclSum, comm, NULL));
  CHECK(all[0] == 3 && all[COUNT - 1] == 3 + 3 * (COUNT - 1));
  OK(ncclAllReduce(one, all, COUNT, ncclFloat32, ncclMax, comm, NULL));
  CHECK(all[7] == 9);
  OK(ncclReduce(one, rank == 1 ? all : NULL, COUNT, ncclFloat32, ncclAvg, 1, comm, NULL));
  CHECK(rank != 1 || all[5] == 6);
  OK(ncclBroadcast(rank == 2 ? one : NULL, all, COUNT, ncclFloat32, 2, comm, NULL));
  CHECK(all[4] == 6);
  all[0] = rank;
  OK(ncclBcast(all, 1, ncclFloat32, 1, comm, NULL));
  CHECK(all[0] == 1);
  OK(ncclAllGather(one, all, COUNT, ncclFloat32, comm, NULL));
  for (int r = 0; r < RANKS; r++) CHECK(all[r * COUNT + 10] == r + 10);
  OK(ncclReduceScatter(all, other, COUNT, ncclFloat32, ncclSum, comm, NULL));
  CHECK(other[1] == 3 * (rank + 1));
  OK(ncclAlltoAll(all, other, COUNT, ncclFloat32, comm, NULL));
  for (int r = 0; r < RANKS; r++) CHECK(other[r * COUNT + 3] == rank + 3);
  OK(ncclGather(one, rank == 0 ? all : NULL, COUNT, ncclFloat32, 0, comm, NULL));
  CHECK(rank || all[2 * COUNT] == 2);
  OK(ncclScatter(rank == 0 ? all : NULL, other, COUNT, ncclFloat32, 0, comm, NULL));
  CHECK(other[9] == rank + 9);
  int next = (rank + 1) % RANKS, previous = (rank + RANKS - 1) % RANKS;
  OK(ncclGroupStart());
  OK(ncclSend(one, COUNT, ncclFloat32, next, comm, NULL));
  OK(ncclRecv(other, COUNT, ncclFloat32, previous, comm, NULL));
  OK(ncclGroupEnd());
  CHECK(other[1] == previous + 1);
  OK(ncclAllReduce(NULL, NULL, 0, ncclFloat32, ncclSum, comm, NULL));
}

static void operators(ncclComm_t comm, int rank) {
  ncclRedOp_t op;
  double half = 0.5, data = 4 * rank, sum;
  OK(ncclRedOpCreatePreMulSum(&op, &half, ncclFloat64, ncclScalarHostImmediate, comm));
  OK(ncclAllReduce(&data, &sum, 1, ncclFloat64, op, comm, NULL));
  CHECK(sum == 6);
  REFUSED(ncclInvalidArgument, "double",
          ncclAllReduce(&data, &sum, 1, ncclFloat32, op, comm, NULL));
  OK(ncclRedOpDestroy(op, comm));
  REFUSED(ncclInvalidArgument, "operator", ncclRedOpDestroy(op, comm));
  REFUSED(ncclInvalidArgument, "operator",
          ncclAllReduce(&data, &sum, 1, ncclFloat64, op, comm, NULL));
  unsigned short bf16_two = 0x4000, elements[2] = {0x3f80, 0x4000}, doubled[2];
  OK(ncclRedOpCreatePreMulSum(&op, &bf16_two, ncclBfloat16, ncclScalarHostImmediate, comm));
  OK(ncclAllReduce(elements, doubled, 2, ncclBfloat16, op, comm, NULL));
  CHECK(doubled[0] == 0x40c0 && doubled[1] == 0x4140);
  OK(ncclRedOpDestroy(op, comm));
  int* scalar;
  OK(ncclMemAlloc((void**)&scalar, sizeof *scalar));
  *scalar = 10;
  int number = rank, product;
  OK(ncclRedOpCreatePreMulSum(&op, scalar, ncclInt32, ncclScalarDevice, comm));
  OK(ncclAllReduce(&number, &product, 1, ncclInt32, op, comm, NULL));
  CHECK(product == 30);
  OK(ncclRedOpDestroy(op, comm));
  OK(ncclMemFree(scalar));
}

static void windows(ncclComm_t comm, int rank) {
  enum { BYTES = 1 << 16 };
  int *memory, *beside;
  OK(ncclMemAlloc((void**)&memory, BYTES));
  OK(ncclMemAlloc((void**)&beside, BYTES));
  memset(memory, 0, BYTES);
  ncclWindow_t window, none = NULL;
  OK(ncclCommWindowRegister(comm, memory, BYTES, &window, 1));
  void* pointer;
  OK(ncclWinGetUserPtr(comm, window, &pointer));
  CHECK(pointer == memory);
  int next = (rank + 1) % RANKS, previous = (rank + RANKS - 1) % RANKS;
  beside[0] = 100 + rank;
  OK(ncclPutSignal(beside, 1, ncclInt32, next, window, 64, 0, 0, 0, comm, NULL));
  ncclWaitSignalDesc_t awaited = {1, previous, 0, 0};
  OK(ncclWaitSignal(1, &awaited, comm, NULL));
  CHECK(memory[16] == 100 + previous);
  OK(ncclSignal(next, 0, 0, 0, comm, NULL));
  OK(ncclWaitSignal(1, &awaited, comm, NULL));
  REFUSED(ncclInvalidArgument, "context", ncclSignal(next, 0, 1, 0, comm, NULL));
  // Of a group that fails or is simulated nothing is sent: the next group's data come with the first signal.
  ncclSimInfo_t simulated = {sizeof simulated, SIMULATION_MAGIC, VERSION, -1};
  OK(ncclGroupStart());
  OK(ncclPutSignal(beside, 1, ncclInt32, next, window, 128, 0, 0, 0, comm, NULL));
  REFUSED(ncclInvalidArgument, "peer", ncclSignal(RANKS, 0, 0, 0, comm, NULL));
  REFUSED(ncclInvalidArgument, "peer", ncclGroupEnd());
  OK(ncclGroupStart());
  OK(ncclPutSignal(beside, 1, ncclInt32, next, window, 128, 0, 0, 0, comm, NULL));
  OK(ncclGroupSimulateEnd(&simulated));
  OK(ncclGroupStart());
  OK(ncclPutSignal(beside, 1, ncclInt32, next, window, 192, 0, 0, 0, comm, NULL));
  OK(ncclWaitSignal(1, &awaited, comm, NULL));
  OK(ncclGroupEnd());
  CHECK(memory[48] == 100 + previous && memory[32] != 100 + previous);
  OK(ncclGetPeerDevicePointer(window, 64, next, &pointer));
  CHECK(*(int*)pointer == 100 + rank);
  OK(ncclGetLsaDevicePointer(window, 64, next, &pointer));
  CHECK(*(int*)pointer == 100 + rank);
  REFUSED(ncclInvalidArgument, "not", ncclGetLsaDevicePointer(window, 0, RANKS, &pointer));
  OK(ncclGetLsaMultimemDevicePointer(window, 0, &pointer));
  CHECK(!pointer);
  memory[0] = rank;
  OK(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(memory[0] == 3);
  meet();
  OK(ncclCommWindowDeregister(comm, window));
  REFUSED(ncclInvalidArgument, "window", ncclCommWindowDeregister(comm, window));
  OK(ncclCommWindowDeregister(comm, none));
  void* registration;
  OK(ncclCommRegister(comm, memory, BYTES, &registration));
  memory[0] = rank;
  OK(ncclAllReduce(memory, memory, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(memory[0] == 3);
  OK(ncclCommDeregister(comm, registration));
  REFUSED(ncclInvalidArgument, "registration", ncclCommDeregister(comm, registration));
  OK(ncclMemFree(memory));
  OK(ncclMemFree(beside));
  REFUSED(ncclInvalidArgument, "freed", ncclMemFree(beside));
}

// Communicators of a communicator.
static void children(ncclComm_t comm, int rank) {
  ncclComm_t half, none, rest;
  ncclConfig_t named = newest();
  named.commName = "half";
  OK(ncclCommSplit(comm, rank == 2 ? 1 : 0, -rank, &half, &named));
  int n, mine;
  OK(ncclCommCount(half, &n));
  OK(ncclCommUserRank(half, &mine));
  CHECK(n == (rank == 2 ? 1 : 2) && mine == (rank == 0 ? 1 : 0));
  int sum, own = 1 + rank;
  OK(ncclAllReduce(&own, &sum, 1, ncclInt32, ncclSum, half, NULL));
  CHECK(sum == 3);
  OK(ncclCommDestroy(half));
  OK(ncclCommSplit(comm, rank ? 0 : -1, 0, &none, NULL));
  CHECK(!none == !rank);
  OK(ncclCommDestroy(none));
  int excluded = 0;
  if (rank) {
    OK(ncclCommShrink(comm, &excluded, 1, &rest, NULL, 0));
    OK(ncclCommCount(rest, &n));
    OK(ncclCommUserRank(rest, &mine));
    CHECK(n == 2 && mine == rank - 1);
    OK(ncclCommDestroy(rest));
  }
}

static void life(ncclComm_t comm, int rank) {
  uint64_t bytes;
  OK(ncclCommMemStats(comm, 3, &bytes));
  OK(ncclCommSuspend(comm, 1));
  OK(ncclCommMemStats(comm, 1, &bytes));
  CHECK(bytes == 1);
  float x = rank, y;
  REFUSED(ncclInvalidUsage, "suspended", ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
  OK(ncclCommResume(comm));
  OK(ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
  CHECK(y == 3);
  ncclResult_t state;
  OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  ncclTeam_t world = ncclTeamWorld(comm);
  CHECK(world.nRanks == RANKS && world.rank == rank && world.stride == 1);
  CHECK(ncclTeamRankToWorld(comm, world, 2) == 2);
  ncclCommProperties_t properties;
  memset(&properties, 0, sizeof properties);
  properties.size = sizeof properties;
  properties.magic = (unsigned)CONFIG_MAGIC;
  OK(ncclCommQueryProperties(comm, &properties));
  CHECK(properties.rank == rank && properties.nRanks == RANKS && !properties.deviceApiSupport);
  CHECK(properties.nvmlDev == 0 && properties.nLsaTeams == 1 && properties.hostRmaSupport);
  size_t sizes[] = {offsetof(ncclCommProperties_t, nLsaTeams),
                    offsetof(ncclCommProperties_t, hostRmaSupport),
                    offsetof(ncclCommProperties_t, railedGinType)};
  for (int i = 0; i < 3; i++) {
    memset(&properties, 0x7f, sizeof properties);
    properties.size = sizes[i];
    properties.magic = (unsigned)CONFIG_MAGIC;
    OK(ncclCommQueryProperties(comm, &properties));
    CHECK(properties.rank == rank && properties.ginType == 0);
    for (size_t at = sizes[i]; at < sizeof properties; at++)
      CHECK(((char*)&properties)[at] == 0x7f);  // behind an older structure
  }
  ncclSimInfo_t simulated = {sizeof simulated, SIMULATION_MAGIC, VERSION, -1};
  OK(ncclGroupStart());
  OK(ncclAllReduce(&x, &y, 1, ncclFloat32, ncclSum, comm, NULL));
  OK(ncclGroupSimulateEnd(&simulated));
  CHECK(simulated.estimatedTime > 0);
}

static void rank_of_three(int rank) {
  ncclComm_t comm;
  OK(ncclCommInitRank(&comm, RANKS, id, rank));
  int n, mine, gpu;
  OK(ncclCommCount(comm, &n));
  OK(ncclCommUserRank(comm, &mine));
  OK(ncclCommCuDevice(comm, &gpu));
  CHECK(n == RANKS && mine == rank && gpu == 0);
  for (int time = 0; time < 3; time++) collectives(comm, rank);
  operators(comm, rank);
  life(comm, rank);
  windows(comm, rank);
  OK(ncclCommFinalize(comm));
  REFUSED(ncclInvalidArgument, "twice", ncclCommFinalize(comm));
  REFUSED(ncclInvalidArgument, "after ncclCommFinalize", ncclCommRevoke(comm, 0));
  OK(ncclCommDestroy(comm));
  REFUSED(ncclInvalidArgument, "not a communicator", ncclCommDestroy(comm));
}

static void children_of_three(int rank) {
  ncclComm_t comm;
  ncclConfig_t given = newest();
  given.commName = "parent";
  OK(ncclCommInitRankScalable(&comm, RANKS, rank, 2, more, &given));
  children(comm, rank);
  OK(ncclCommDestroy(comm));
}

// Communicators that are created and finalized in the background.
static void rank_in_background(int rank) {
  ncclComm_t comm;
  ncclConfig_t given = newest();
  given.blocking = 0;
  GIVES(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, rank, &given));
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  int x = 1 + rank;
  OK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(x == 3);
  GIVES(ncclInProgress, ncclCommFinalize(comm));
  for (state = ncclInProgress; state == ncclInProgress;) OK(ncclCommGetAsyncError(comm, &state));
  CHECK(state == ncclSuccess);
  OK(ncclCommDestroy(comm));
}

// One rank that nobody meets, given up.
static void alone_in_background(void) {
  ncclComm_t comm;
  ncclUniqueId own;
  ncclConfig_t given = newest();
  given.blocking = 0;
  OK(ncclGetUniqueId(&own));
  GIVES(ncclInProgress, ncclCommInitRankConfig(&comm, 2, own, 0, &given));
  int n;
  REFUSED(ncclInvalidArgument, "being created", ncclCommCount(comm, &n));
  OK(ncclCommAbort(comm));
}

// One thread registers windows of all ranks in a group, and ends one rank after the other.
static void windows_of_one_thread(void) {
  enum { BYTES = 1 << 16 };
  ncclComm_t comms[RANKS];
  int* memory[RANKS];
  ncclWindow_t windows[RANKS];
  OK(ncclCommInitAll(comms, RANKS, NULL));
  for (int r = 0; r < RANKS; r++) OK(ncclMemAlloc((void**)(memory + r), BYTES));
  for (int time = 0; time < 3; time++) {
    OK(ncclGroupStart());
    for (int r = 0; r < RANKS; r++)
      OK(ncclCommWindowRegister(comms[r], memory[r], BYTES, windows + r, 1));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    for (int r = 0; r < RANKS; r++) {
      memory[r][0] = 1 << r;
      OK(ncclAllReduce(memory[r], memory[r], 1, ncclInt32, ncclSum, comms[r], NULL));
    }
    OK(ncclGroupEnd());
    for (int r = 0; r < RANKS; r++) CHECK(memory[r][0] == 7);
    if (time < 2)
      for (int r = 0; r < RANKS; r++) OK(ncclCommWindowDeregister(comms[r], windows[r]));
  }
  for (int r = 0; r < RANKS; r++) {
    OK(ncclCommWindowDeregister(comms[r], windows[r]));
    OK(ncclCommDestroy(comms[r]));
    OK(ncclMemFree(memory[r]));
  }
}

// Communicators that are revoked, of which others are made. One thread drives all ranks.
static void revoke_all(ncclComm_t* comms) {
  ncclComm_t halves[RANKS], rest[RANKS];
  ncclResult_t state;
  int data[RANKS] = {1, 2, 4}, n, excluded = 1;
  OK(ncclCommRevoke(comms[0], 0));
  OK(ncclCommGetAsyncError(comms[0], &state));
  CHECK(state == ncclSuccess);
  OK(ncclCommGetAsyncError(comms[1], &state));
  CHECK(state == ncclInvalidUsage && strstr(ncclGetLastError(comms[1]), "revoked"));
  for (int r = 1; r < RANKS; r++) OK(ncclCommRevoke(comms[r], 0));
  REFUSED(ncclInvalidArgument, "twice", ncclCommRevoke(comms[0], 0));
  REFUSED(ncclInvalidArgument, "after ncclCommRevoke", ncclCommFinalize(comms[0]));
  REFUSED(ncclInvalidUsage, "revoked",
          ncclAllReduce(data, data, 1, ncclInt32, ncclSum, comms[0], NULL));
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommSplit(comms[r], r % 2, 0, halves + r, NULL));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++)
    OK(ncclAllReduce(data + r, data + r, 1, ncclInt32, ncclSum, halves[r], NULL));
  OK(ncclGroupEnd());
  CHECK(data[0] == 5 && data[1] == 2 && data[2] == 5);
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r += 2)
    OK(ncclCommShrink(comms[r], &excluded, 1, rest + r, NULL, 0));
  OK(ncclGroupEnd());
  OK(ncclCommCount(rest[2], &n));
  CHECK(n == 2);
  for (int r = 0; r < RANKS; r++) OK(ncclCommDestroy(halves[r]));
  for (int r = 0; r < RANKS; r += 2) OK(ncclCommDestroy(rest[r]));
}

// One thread drives all ranks.
static void one_thread(void) {
  ncclComm_t comms[RANKS], halves[RANKS];
  OK(ncclCommInitAll(comms, RANKS, NULL));
  int data[RANKS] = {1, 2, 4};
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++)
    OK(ncclAllReduce(data + r, data + r, 1, ncclInt32, ncclSum, comms[r], NULL));
  OK(ncclGroupStart());
  OK(ncclGroupEnd());
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) CHECK(data[r] == 7);
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommSplit(comms[r], r % 2, 0, halves + r, NULL));
  OK(ncclGroupEnd());
  int n;
  OK(ncclCommCount(halves[2], &n));
  CHECK(n == 2);
  for (int r = 0; r < RANKS; r++) OK(ncclCommDestroy(halves[r]));
  uint64_t suspended;
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommSuspend(comms[r], 1));
  OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; r++) {
    OK(ncclCommMemStats(comms[r], 1, &suspended));
    CHECK(suspended == 1);
  }
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommResume(comms[r]));
  OK(ncclGroupEnd());
  revoke_all(comms);
  for (int r = 0; r < RANKS; r++) OK(ncclCommAbort(comms[r]));
  ncclUniqueId own;
  OK(ncclGetUniqueId(&own));
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++) OK(ncclCommInitRank(comms + r, RANKS, own, r));
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  for (int r = 0; r < RANKS; r++)
    OK(ncclAllReduce(data + r, data + r, 1, ncclInt32, ncclSum, comms[r], NULL));
  OK(ncclGroupEnd());
  CHECK(data[2] == 21);
  for (int r = 0; r < RANKS; r++) OK(ncclCommDestroy(comms[r]));
}

static ncclComm_t failing[2], meeting[2], working[2];

static void* other_ranks(void* unused) {
  int x = 2;
  OK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, meeting[1], NULL));  // the group is launched
  OK(ncclCommRevoke(failing[1], 0));
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) OK(ncclCommGetAsyncError(failing[0], &state));
  usleep(100000);  // for an end that does not wait
  OK(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, working[1], NULL));
  return unused;
}

// An operation that fails does not keep the end of its group from waiting for the others.
static void group_that_fails(void) {
  ncclComm_t* all[] = {failing, meeting, working};
  int data[3] = {1, 1, 1};
  pthread_t others;
  for (int c = 0; c < 3; c++) OK(ncclCommInitAll(all[c], 2, NULL));
  CHECK(!pthread_create(&others, NULL, other_ranks, NULL));
  OK(ncclGroupStart());
  for (int c = 0; c < 3; c++)
    OK(ncclAllReduce(data + c, data + c, 1, ncclInt32, ncclSum, all[c][0], NULL));
  CHECK(ncclGroupEnd() != ncclSuccess);
  CHECK(data[1] == 3 && data[2] == 4);
  CHECK(!pthread_join(others, NULL));
  for (int c = 0; c < 3; c++)
    for (int r = 0; r < 2; r++) OK(ncclCommAbort(all[c][r]));
}

// More than there is, as programs for larger machines ask for.
static void large_configuration(void) {
  ncclConfig_t given = newest();
  given.minCTAs = 100;
  given.maxCTAs = 1000;
  given.nvlsCTAs = 128;
  given.cgaClusterSize = 16;
  given.trafficClass = 300;
  ncclUniqueId own;
  ncclComm_t comm;
  OK(ncclGetUniqueId(&own));
  OK(ncclCommInitRankConfig(&comm, 1, own, 0, &given));
  OK(ncclCommDestroy(comm));
}

static void old_configurations(void) {
  int sizes[][2] = {{21400, 24}, {21700, 40}, {21800, 48}, {22500, 56}, {22700, 72}, {22809, 80},
                    {22900, 88}, {23000, 96}, {23007, 96}, {23100, 256}};
  for (int i = 0; i < (int)(sizeof sizes / sizeof sizes[0]); i++) {
    ncclConfig_t given = config(sizes[i][0], sizes[i][1]);
    if (i < 1) given.cgaClusterSize = 77;  // behind the end of 2.14's
    if (i < 3) given.trafficClass = 4711;
    ncclUniqueId own;
    ncclComm_t comm;
    OK(ncclGetUniqueId(&own));
    OK(ncclCommInitRankConfig(&comm, 1, own, 0, &given));
    OK(ncclCommDestroy(comm));
  }
}

static void parameters(void) {
  ncclParamHandle_t handle;
  const char *text, **names;
  int length;
  OK(ncclParamBind(&handle, "NCCL_UID_STAGGER_RATE"));
  int32_t number;
  int8_t small;
  uint64_t large;
  int16_t i16;
  int64_t i64;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  OK(ncclParamGetI32(handle, &number));
  OK(ncclParamGetU64(handle, &large));
  OK(ncclParamGetI16(handle, &i16));
  OK(ncclParamGetI64(handle, &i64));
  OK(ncclParamGetU16(handle, &u16));
  OK(ncclParamGetU32(handle, &u32));
  CHECK(number == 7000 && large == 7000 && i16 == 7000 && i64 == 7000 && u16 == 7000 && u32 == 7000);
  REFUSED(ncclInvalidArgument, "7000", ncclParamGetI8(handle, &small));
  REFUSED(ncclInvalidArgument, "7000", ncclParamGetU8(handle, &u8));
  OK(ncclParamGetStr(handle, &text));
  CHECK(!strcmp(text, "7000"));
  // Numbers and flags are read as NCCL keeps them, texts with their 0.
  char raw[8];
  i64 = 0;
  OK(ncclParamGet(handle, &i64, sizeof i64, &length));
  CHECK(length == 8 && i64 == 7000);
  REFUSED(ncclInvalidArgument, "fit", ncclParamGet(handle, raw, 7, &length));
  CHECK(!length);
  OK(ncclParamBind(&handle, "NCCL_SHM_DISABLE"));
  OK(ncclParamGet(handle, &i64, sizeof i64, &length));
  CHECK(length == 8 && i64 == 0);
  OK(ncclParamGetI8(handle, &small));
  CHECK(small == 0);
  OK(ncclParamBind(&handle, "NCCL4J_DEVICE"));
  OK(ncclParamGet(handle, raw, sizeof raw, &length));
  CHECK(length == 5 && !strcmp(raw, "host"));
  REFUSED(ncclInvalidArgument, "fit", ncclParamGet(handle, raw, 4, &length));
  OK(ncclParamGetParameter("NCCL4J_DEVICE", &text, &length));
  CHECK(!strcmp(text, "host") && length == 4);
  REFUSED(ncclInvalidArgument, "NCCL_NOTHING", ncclParamGetParameter("NCCL_NOTHING", &text, &length));
  REFUSED(ncclInvalidArgument, "NCCL_NOTHING", ncclParamBind(&handle, "NCCL_NOTHING"));
  OK(ncclParamGetAllParameterKeys(&names, &length));
  CHECK(length > 50 && !strncmp(names[0], "NCCL", 4));
  char dump[] = "/tmp/abi-parameters-XXXXXX";
  int file = mkstemp(dump);
  CHECK(file >= 0 && freopen(dump, "w+", stderr));
  ncclParamDumpAll();
  rewind(stderr);
  int lines = 0;
  for (int letter; (letter = getc(stderr)) != EOF;) lines += letter == '\n';
  CHECK(lines == length);
  close(file);
  unlink(dump);
}

static ncclUniqueId shared_grown;

// A new rank joins, which the program tells the id; of the others one knows it.
static void grow(int rank) {
  ncclComm_t small, larger;
  int sum, own = rank == RANKS ? 40 : 1 + rank;
  if (rank == RANKS) {
    meet();
    OK(ncclCommGrow(NULL, RANKS + 1, &shared_grown, RANKS, &larger, NULL));
  } else {
    OK(ncclCommInitRank(&small, RANKS, id, rank));
    if (rank == 1) OK(ncclCommGetUniqueId(small, &shared_grown));
    meet();
    OK(ncclCommGrow(small, RANKS + 1, rank == 1 ? &shared_grown : NULL, -1, &larger, NULL));
    OK(ncclCommDestroy(small));
  }
  OK(ncclAllReduce(&own, &sum, 1, ncclInt32, ncclSum, larger, NULL));
  CHECK(sum == 46);
  OK(ncclCommDestroy(larger));
}

int main(void) {
  int version;
  OK(ncclGetVersion(&version));
  CHECK(version == VERSION);
  ncclResetDebugInit();
  ncclResetDebugInitInternal();
  pthread_barrier_init(&together, NULL, RANKS);
  OK(ncclGetUniqueId(&id));
  run_ranks(RANKS, rank_of_three);
  OK(ncclGetUniqueId(more));
  OK(ncclGetUniqueId(more + 1));
  run_ranks(RANKS, children_of_three);
  OK(ncclGetUniqueId(&id));
  pthread_barrier_destroy(&together);
  pthread_barrier_init(&together, NULL, RANKS + 1);
  run_ranks(RANKS + 1, grow);
  OK(ncclGetUniqueId(&id));
  run_ranks(2, rank_in_background);
  alone_in_background();
  one_thread();
  windows_of_one_thread();
  group_that_fails();
  old_configurations();
  large_configuration();
  parameters();
  puts("all was right");
  return 0;
}
