// Calls every function with wrong arguments: an error with a sentence, and no crash. On GPU 0, which may be of
// the tests' driver, or with NCCL4J_DEVICE=host on the host.
#include "checks.h"
#include "driver.h"
#include <limits.h>

static __thread ncclComm_t comm;
static const ncclComm_t NO_COMM = (ncclComm_t)0x1234567;
static __thread int* data;  // of the device

static void put(int at, int value) { copy_in(data + at, &value, sizeof value, NULL); }

static int get(int at) {
  int value;
  copy_out(&value, data + at, sizeof value, NULL);
  return value;
}

// The result of an operation, where data are moved.
static int holds(int at, int value) { return get(at) == value || !moves_data(); }

#define BAD(word, call) REFUSED(ncclInvalidArgument, word, call)
#define UNUSABLE(word, call) REFUSED(ncclInvalidUsage, word, call)

// For each way to name no communicator.
#define NO_COMMUNICATOR(function, ...)                     \
  BAD("comm is NULL", function(__VA_ARGS__ NULL));         \
  BAD("0x1234567 is not a communicator", function(__VA_ARGS__ NO_COMM))

static void creation(void) {
  ncclUniqueId id, zero, junk;
  ncclComm_t made = NULL;
  int excluded = 0;
  memset(&zero, 0, sizeof zero);
  memset(&junk, 0xa5, sizeof junk);
  BAD("uniqueId is NULL", ncclGetUniqueId(NULL));
  OK(ncclGetUniqueId(&id));
  BAD("version is NULL", ncclGetVersion(NULL));
  BAD("ncclCommInitRank: comm is NULL", ncclCommInitRank(NULL, 1, id, 0));
  BAD("rank 1 of 1", ncclCommInitRank(&made, 1, id, 1));
  BAD("rank -1 of 1", ncclCommInitRank(&made, 1, id, -1));
  BAD("of 0 ranks", ncclCommInitRank(&made, 0, id, 0));
  BAD("bytes", ncclCommInitRank(&made, 1, zero, 0));
  BAD("version", ncclCommInitRank(&made, 1, junk, 0));
  BAD("commIds is NULL", ncclCommInitRankScalable(&made, 1, 0, 1, NULL, NULL));
  BAD("2 unique ids", ncclCommInitRankScalable(&made, 1, 0, 2, &id, NULL));
  BAD("0 unique ids", ncclCommInitRankScalable(&made, 1, 0, 0, &id, NULL));
  BAD("comm is NULL", ncclCommInitAll(NULL, 1, NULL));
  BAD("0 devices", ncclCommInitAll(&made, 0, NULL));
  ncclConfig_t given = newest();
  given.magic = 1;
  BAD("NCCL_CONFIG_INITIALIZER", ncclCommInitRankConfig(&made, 1, id, 0, &given));
  given = newest();
  given.blocking = 2;
  BAD("blocking", ncclCommInitRankConfig(&made, 1, id, 0, &given));
  given = newest();
  given.minCTAs = -3;
  BAD("-3", ncclCommInitRankConfig(&made, 1, id, 0, &given));
  given = newest();
  given.cgaClusterSize = -1;
  BAD("cgaClusterSize", ncclCommInitRankConfig(&made, 1, id, 0, &given));
  struct {
    const char* name;
    size_t at;
    int wrong[2];
  } fields[] = {{"splitShare", offsetof(ncclConfig_t, splitShare), {2, -1}},
                {"collnetEnable", offsetof(ncclConfig_t, collnetEnable), {2, -1}},
                {"shrinkShare", offsetof(ncclConfig_t, shrinkShare), {2, -1}},
                {"nChannelsPerNetPeer", offsetof(ncclConfig_t, nChannelsPerNetPeer), {65, 0}},
                {"nvlinkCentricSched", offsetof(ncclConfig_t, nvlinkCentricSched), {2, -1}},
                {"graphUsageMode", offsetof(ncclConfig_t, graphUsageMode), {3, -1}},
                {"numRmaCtx", offsetof(ncclConfig_t, numRmaCtx), {-1, -2}},
                {"maxP2pPeers", offsetof(ncclConfig_t, maxP2pPeers), {0, -1}},
                {"graphStreamOrdering", offsetof(ncclConfig_t, graphStreamOrdering), {2, -1}}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    for (int w = 0; w < 2; w++) {
      given = newest();
      *(int*)((char*)&given + fields[i].at) = fields[i].wrong[w];
      BAD(fields[i].name, ncclCommInitRankConfig(&made, 1, id, 0, &given));
    }
  CHECK(!made);
  BAD("newcomm is NULL", ncclCommSplit(comm, 0, 0, NULL, NULL));
  BAD("comm is NULL", ncclCommSplit(NULL, 0, 0, &made, NULL));
  BAD("not a communicator", ncclCommSplit(NO_COMM, 0, 0, &made, NULL));
  BAD("color", ncclCommSplit(comm, -7, 0, &made, NULL));
  BAD("newcomm is NULL", ncclCommShrink(comm, &excluded, 1, NULL, NULL, 0));
  BAD("excludeRanksList is NULL", ncclCommShrink(comm, NULL, 1, &made, NULL, 0));
  BAD("flags 9", ncclCommShrink(comm, &excluded, 1, &made, NULL, 9));
  BAD("0 ranks", ncclCommShrink(comm, &excluded, 0, &made, NULL, 0));
  BAD("rank", ncclCommShrink(comm, &excluded, 1, &made, NULL, 0));  // of the caller
  BAD("not a communicator", ncclCommShrink(NO_COMM, &excluded, 1, &made, NULL, 0));
  BAD("rank 3 grows", ncclCommGrow(comm, 2, &id, 3, &made, NULL));
  BAD("cannot grow to 1", ncclCommGrow(comm, 1, &id, -1, &made, NULL));
  BAD("0 unique ids", ncclCommGrow(comm, 2, NULL, -1, &made, NULL));
  BAD("bytes", ncclCommGrow(comm, 2, &zero, -1, &made, NULL));
  BAD("ncclCommGrow: uniqueId is NULL", ncclCommGrow(NULL, 2, NULL, 1, &made, NULL));
  BAD("not a communicator", ncclCommGrow(NO_COMM, 2, &id, -1, &made, NULL));
  BAD("comm is NULL", ncclCommGetUniqueId(NULL, &id));
  BAD("uniqueId is NULL", ncclCommGetUniqueId(comm, NULL));
  BAD("not a communicator", ncclCommGetUniqueId(NO_COMM, &id));
}

static void life(void) {
  int n;
  uint64_t bytes;
  ncclResult_t state;
  OK(ncclCommDestroy(NULL));
  OK(ncclCommAbort(NULL));
  BAD("not a communicator", ncclCommDestroy(NO_COMM));
  BAD("not a communicator", ncclCommAbort(NO_COMM));
  OK(ncclCommFinalize(NULL));
  BAD("not a communicator", ncclCommFinalize(NO_COMM));
  NO_COMMUNICATOR(ncclCommResume, );
  UNUSABLE("not suspended", ncclCommResume(comm));
  BAD("flags 2", ncclCommSuspend(comm, 2));
  BAD("not a communicator", ncclCommSuspend(NO_COMM, 1));
  BAD("flags 1", ncclCommRevoke(comm, 1));
  OK(ncclCommRevoke(NULL, 0));
  BAD("not a communicator", ncclCommRevoke(NO_COMM, 0));
  BAD("value is NULL", ncclCommMemStats(comm, 0, NULL));
  BAD("statistic", ncclCommMemStats(comm, 17, &bytes));
  BAD("not a communicator", ncclCommMemStats(NO_COMM, 0, &bytes));
  BAD("asyncError is NULL", ncclCommGetAsyncError(comm, NULL));
  BAD("comm is NULL", ncclCommGetAsyncError(NULL, &state));
  BAD("not a communicator", ncclCommGetAsyncError(NO_COMM, &state));
  BAD("count is NULL", ncclCommCount(comm, NULL));
  BAD("rank is NULL", ncclCommUserRank(comm, NULL));
  BAD("device is NULL", ncclCommCuDevice(comm, NULL));
  BAD("not a communicator", ncclCommCount(NO_COMM, &n));
  BAD("not a communicator", ncclCommUserRank(NO_COMM, &n));
  BAD("not a communicator", ncclCommCuDevice(NO_COMM, &n));
  BAD("comm is NULL", ncclCommCount(NULL, &n));
  ncclCommProperties_t properties;
  memset(&properties, 0, sizeof properties);
  BAD("INITIALIZER", ncclCommQueryProperties(comm, &properties));
  properties.magic = (unsigned)CONFIG_MAGIC;
  properties.size = offsetof(ncclCommProperties_t, ginType);
  BAD("36 bytes", ncclCommQueryProperties(comm, &properties));
  BAD("props is NULL", ncclCommQueryProperties(comm, NULL));
}

static void operations(void) {
  const int F = ncclFloat32;
  void* d = data;
  BAD("comm is NULL", ncclAllReduce(d, d, 1, F, ncclSum, NULL, NULL));
  BAD("not a communicator", ncclAllReduce(d, d, 1, F, ncclSum, NO_COMM, NULL));
  BAD("send buffer is null", ncclAllReduce(NULL, d, 1, F, ncclSum, comm, NULL));
  BAD("recv buffer is null", ncclAllReduce(d, NULL, 1, F, ncclSum, comm, NULL));
  BAD("0x10", ncclAllReduce((void*)16, d, 1, F, ncclSum, comm, NULL));
  BAD("12 is not a type", ncclAllReduce(d, d, 1, 12, ncclSum, comm, NULL));
  BAD("-1 is not a type", ncclAllReduce(d, d, 1, -1, ncclSum, comm, NULL));
  BAD("operator", ncclAllReduce(d, d, 1, F, 4711, comm, NULL));
  BAD("-1 is not an operator", ncclAllReduce(d, d, 1, F, -1, comm, NULL));
  BAD("count", ncclAllReduce(d, d, SIZE_MAX, F, ncclSum, comm, NULL));
  BAD("count", ncclAllReduce(d, d, SIZE_MAX / 4, F, ncclSum, comm, NULL));
  BAD("root 1", ncclReduce(d, d, 1, F, ncclSum, 1, comm, NULL));
  BAD("root -1", ncclBroadcast(d, d, 1, F, -1, comm, NULL));
  BAD("root 7", ncclBcast(d, 1, F, 7, comm, NULL));
  BAD("root 1", ncclGather(d, d, 1, F, 1, comm, NULL));
  BAD("root 1", ncclScatter(d, d, 1, F, 1, comm, NULL));
  BAD("null", ncclReduceScatter(NULL, d, 1, F, ncclSum, comm, NULL));
  BAD("null", ncclAllGather(d, NULL, 1, F, comm, NULL));
  BAD("null", ncclAlltoAll(d, NULL, 1, F, comm, NULL));
  BAD("peer 5", ncclSend(d, 1, F, 5, comm, NULL));
  BAD("peer 5", ncclRecv(d, 1, F, 5, comm, NULL));
  UNUSABLE("itself", ncclSend(d, 1, F, 0, comm, NULL));
  UNUSABLE("not started", ncclGroupEnd());
  ncclSimInfo_t simulated = {sizeof simulated, 7, VERSION, -1};
  UNUSABLE("not started", ncclGroupSimulateEnd(NULL));
  UNUSABLE("not started", ncclGroupSimulateEnd(&simulated));
  // A failed simulation ends its group.
  OK(ncclGroupStart());
  BAD("INITIALIZER", ncclGroupSimulateEnd(&simulated));
  UNUSABLE("not started", ncclGroupEnd());
  simulated.magic = SIMULATION_MAGIC;
  UNUSABLE("not started", ncclGroupSimulateEnd(&simulated));
  OK(ncclGroupStart());
  BAD("root 7", ncclBroadcast(d, d, 1, F, 7, comm, NULL));
  BAD("root 7", ncclGroupSimulateEnd(&simulated));
  ncclUniqueId id;
  ncclComm_t other;
  int n;
  OK(ncclGetUniqueId(&id));
  OK(ncclCommInitRank(&other, 1, id, 0));
  OK(ncclCommCount(other, &n));
  OK(ncclCommDestroy(other));
  UNUSABLE("not started", ncclGroupEnd());
  OK(ncclGroupStart());
  OK(ncclGroupStart());
  OK(ncclGroupSimulateEnd(&simulated));
  CHECK(simulated.estimatedTime == -1);
  OK(ncclGroupEnd());
  // Without something to fill in, it is a launch.
  put(1, 0);
  put(0, 3);
  OK(ncclGroupStart());
  OK(ncclAllReduce(d, data + 1, 1, ncclInt32, ncclSum, comm, NULL));
  OK(ncclGroupSimulateEnd(NULL));
  CHECK(holds(1, 3));
  // A wrong call fails its group, of which nothing is launched; the next one works.
  OK(ncclGroupStart());
  put(0, 1);
  OK(ncclAllReduce(d, d, 1, ncclInt32, ncclSum, comm, NULL));
  BAD("null", ncclAllReduce(NULL, d, 1, F, ncclSum, comm, NULL));
  BAD("null", ncclGroupEnd());
  OK(ncclGroupStart());
  OK(ncclAllReduce(d, d, 1, ncclInt32, ncclSum, comm, NULL));
  OK(ncclGroupEnd());
  ncclRedOp_t op;
  float one = 1;
  BAD("op is NULL", ncclRedOpCreatePreMulSum(NULL, &one, F, 1, comm));
  BAD("scalar is NULL", ncclRedOpCreatePreMulSum(&op, NULL, F, 1, comm));
  BAD("comm is NULL", ncclRedOpCreatePreMulSum(&op, &one, F, 1, NULL));
  BAD("not a communicator", ncclRedOpCreatePreMulSum(&op, &one, F, 1, NO_COMM));
  BAD("99 is not a type", ncclRedOpCreatePreMulSum(&op, &one, 99, 1, comm));
  BAD("residence", ncclRedOpCreatePreMulSum(&op, &one, F, 2, comm));
  BAD("operator 3", ncclRedOpDestroy(3, comm));
  BAD("not a communicator", ncclRedOpDestroy(5, NO_COMM));
}

// A group with a call that fails has an operation and a creation, and the end gives the call's error.
#define BAD_IN_GROUP(word, call)                                          \
  do {                                                                    \
    put(2, 1);                                                            \
    put(3, 0);                                                            \
    ncclComm_t half_ = NULL;                                              \
    ncclUniqueId id_;                                                     \
    ncclResult_t state_;                                                  \
    OK(ncclGetUniqueId(&id_));                                            \
    OK(ncclGroupStart());                                                 \
    OK(ncclAllReduce(data + 2, data + 3, 1, ncclInt32, ncclSum, comm, NULL)); \
    OK(ncclCommInitRank(&half_, 2, id_, 0)); /* nobody is rank 1 */       \
    OK(ncclGroupStart());                                                 \
    BAD(word, call);                                                      \
    OK(ncclGroupEnd());                                                   \
    BAD(word, ncclGroupEnd());                                            \
    CHECK(!get(3));                                                       \
    OK(ncclCommGetAsyncError(half_, &state_));                            \
    CHECK(state_ == ncclInvalidUsage);                                    \
    CHECK(strstr(ncclGetLastError(half_), "given up"));                   \
    OK(ncclCommAbort(half_));                                             \
  } while (0)

// For each part of the library that refuses calls.
static void groups(void) {
  void* d = data;
  ncclUniqueId id;
  ncclComm_t made;
  ncclWindow_t window;
  int excluded = 0;
  memset(&id, 0, sizeof id);
  BAD_IN_GROUP("ncclAllReduce: comm is NULL", ncclAllReduce(d, d, 1, ncclInt32, ncclSum, NULL, NULL));
  BAD_IN_GROUP("55 is not a type", ncclSend(d, 1, 55, 0, comm, NULL));
  BAD_IN_GROUP("-1 is not an operator", ncclReduce(d, d, 1, ncclInt32, -1, 0, comm, NULL));
  BAD_IN_GROUP("operator 4711", ncclReduce(d, d, 1, ncclInt32, 4711, 0, comm, NULL));
  BAD_IN_GROUP("0x1234567", ncclAllReduce(d, d, 1, ncclInt32, ncclSum, NO_COMM, NULL));
  BAD_IN_GROUP("0x10", ncclAllReduce((void*)16, d, 1, ncclInt32, ncclSum, comm, NULL));
  BAD_IN_GROUP("count", ncclAllReduce(d, d, SIZE_MAX, ncclInt32, ncclSum, comm, NULL));
  BAD_IN_GROUP("rank 5 of 2", ncclCommInitRank(&made, 2, id, 5));
  BAD_IN_GROUP("bytes", ncclCommInitRank(&made, 2, id, 1));
  BAD_IN_GROUP("0x1234567", ncclCommSplit(NO_COMM, 0, 0, &made, NULL));
  BAD_IN_GROUP("flags 9", ncclCommShrink(comm, &excluded, 1, &made, NULL, 9));
  BAD_IN_GROUP("rank 3 grows", ncclCommGrow(comm, 2, NULL, 3, &made, NULL));
  BAD_IN_GROUP("flags 64", ncclCommWindowRegister(comm, d, 4, &window, 64));
  BAD_IN_GROUP("index 1", ncclSignal(0, 1, 0, 0, comm, NULL));
  BAD_IN_GROUP("0x1234567", ncclSignal(0, 0, 0, 0, NO_COMM, NULL));
  BAD_IN_GROUP("0x1234567", ncclCommResume(NO_COMM));
  // Calls that wait for other ranks fail at the end.
  OK(ncclGroupStart());
  OK(ncclCommResume(comm));
  UNUSABLE("not suspended", ncclGroupEnd());
  OK(ncclGetUniqueId(&id));
  OK(ncclGroupStart());
  OK(ncclCommInitRank(&made, 2, id, 0));
  OK(ncclCommAbort(made));
  UNUSABLE("was aborted", ncclGroupEnd());
  // Questions are no calls of the group.
  OK(ncclGroupStart());
  BAD("count is NULL", ncclCommCount(comm, NULL));
  BAD("value is NULL", ncclCommMemStats(comm, 0, NULL));
  OK(ncclGroupEnd());
}

static void memory(void) {
  void* p;
  ncclWindow_t window = NULL, none = (ncclWindow_t)0x77;
  ncclWaitSignalDesc_t awaited = {1, 0, 0, 0}, other = {1, 0, 3, 0}, few = {0, 0, 0, 0};
  BAD("ptr is NULL", ncclMemAlloc(NULL, 1));
  BAD("allocated", ncclMemAlloc(&p, SIZE_MAX));
  OK(ncclMemAlloc(&p, 0));
  CHECK(!p);
  OK(ncclMemFree(NULL));
  BAD("freed", ncclMemFree(data));
  BAD("comm is NULL", ncclCommRegister(NULL, data, 4, &p));
  BAD("buff is NULL", ncclCommRegister(comm, NULL, 4, &p));
  BAD("handle is NULL", ncclCommRegister(comm, data, 4, NULL));
  BAD("bytes", ncclCommRegister(comm, data, 0, &p));
  BAD("not a communicator", ncclCommRegister(NO_COMM, data, 4, &p));
  BAD("not a registration", ncclCommDeregister(comm, data));
  OK(ncclCommDeregister(comm, NULL));
  BAD("win is NULL", ncclCommWindowRegister(comm, data, 4, NULL, 0));
  BAD("flags 64", ncclCommWindowRegister(comm, data, 4, &window, 64));
  BAD("NCCL4J-WINDOW", ncclCommWindowRegister(comm, data, 4, &window, 0));  // not of ncclMemAlloc
  CHECK(!window);
  BAD("not a window", ncclCommWindowDeregister(comm, none));
  BAD("not a window", ncclWinGetUserPtr(comm, none, &p));
  BAD("outUserPtr is NULL", ncclWinGetUserPtr(comm, none, NULL));
  BAD("not a window", ncclGetPeerDevicePointer(none, 0, 0, &p));
  BAD("not a window", ncclGetLsaDevicePointer(none, 0, 0, &p));
  BAD("not a window", ncclGetLsaMultimemDevicePointer(none, 0, &p));
  BAD("outPtr is NULL", ncclGetPeerDevicePointer(none, 0, 0, NULL));
  BAD("peerWin is NULL", ncclPutSignal(data, 1, ncclInt32, 0, NULL, 0, 0, 0, 0, comm, NULL));
  BAD("not a window", ncclPutSignal(data, 1, ncclInt32, 0, none, 0, 0, 0, 0, comm, NULL));
  BAD("localbuff is NULL", ncclPutSignal(NULL, 1, ncclInt32, 0, none, 0, 0, 0, 0, comm, NULL));
  BAD("index 1", ncclPutSignal(data, 1, ncclInt32, 0, none, 0, 1, 0, 0, comm, NULL));
  BAD("not a type", ncclPutSignal(data, 1, 12, 0, none, 0, 0, 0, 0, comm, NULL));
  BAD("flags 1", ncclSignal(0, 0, 0, 1, comm, NULL));
  BAD("not a communicator", ncclSignal(0, 0, 0, 0, NO_COMM, NULL));
  BAD("signalDescs is NULL", ncclWaitSignal(1, NULL, comm, NULL));
  BAD("0 signals", ncclWaitSignal(0, &awaited, comm, NULL));
  BAD("index 3", ncclWaitSignal(1, &other, comm, NULL));
  OK(ncclMemAlloc(&p, 4096));
  OK(ncclCommWindowRegister(comm, p, 4096, &window, 0));
  ncclWindow_t second = NULL;
  ncclSimInfo_t simulated = {sizeof simulated, SIMULATION_MAGIC, VERSION, -1};
  OK(ncclGroupStart());
  OK(ncclCommWindowRegister(comm, p, 4096, &second, 0));
  UNUSABLE("windows", ncclGroupSimulateEnd(&simulated));
  UNUSABLE("not started", ncclGroupEnd());
  BAD("peer", ncclSignal(9, 0, 0, 0, comm, NULL));
  BAD("signal", ncclWaitSignal(1, &few, comm, NULL));
  ncclWaitSignalDesc_t several[] = {{2, 0, 0, 0}, {0, 0, 0, 0}}, many[] = {{1, 0, 0, 0}, {INT_MAX, 0, 0, 0}};
  BAD("descriptor 1 awaits 0 signals of rank 0", ncclWaitSignal(2, several, comm, NULL));
  BAD("descriptor 1 awaits 2147483647", ncclWaitSignal(2, many, comm, NULL));
  BAD("window", ncclPutSignal(data, 4, ncclInt32, 0, window, 4095, 0, 0, 0, comm, NULL));
  void* there;
  BAD("rank 5", ncclGetPeerDevicePointer(window, 0, 5, &there));
  BAD("rank -1", ncclGetPeerDevicePointer(window, 0, -1, &there));
  OK(ncclGetPeerDevicePointer(window, 4095, 0, &there));
  BAD("offset 4096", ncclGetPeerDevicePointer(window, 4096, 0, &there));
  BAD("offset 18446744073709551615", ncclGetPeerDevicePointer(window, SIZE_MAX, 0, &there));
  BAD("offset 4096", ncclGetLsaDevicePointer(window, 4096, 0, &there));
  OK(ncclCommWindowDeregister(comm, window));
  OK(ncclMemFree(p));
}

static void devices(void) {
  char any[256] = {0};
  void* p;
  ncclTeam_t team = {1, 0, 1};
  ncclMultimemHandle_t multimem = {NULL};
  UNUSABLE("device communicators", ncclDevCommCreate(comm, any, any));
  UNUSABLE("device communicators", ncclDevCommDestroy(comm, any));
  BAD("comm is NULL", ncclDevCommCreate(NULL, any, any));
  UNUSABLE("device", ncclLsaBarrierCreateRequirement(team, 1, any, any));
  UNUSABLE("device", ncclGinBarrierCreateRequirement(comm, team, 1, any, any));
  UNUSABLE("device", ncclLLA2ACreateRequirement(1, 1, any, any));
  UNUSABLE("device", ncclGinOutboxCreateRequirement(1, 1, any, any));
  UNUSABLE("device", ncclGinInboxA2ACreateRequirement(team, 1, 1, any, any));
  UNUSABLE("device", ncclGetMultimemDevicePointer(NULL, 0, multimem, &p));
  CHECK(ncclLLA2ACalcSlots(3, 12) == 6);
  CHECK(ncclTeamLsa(NO_COMM).nRanks == 0 && ncclTeamRail(NULL).nRanks == 0);
  CHECK(ncclTeamRankToLsa(NO_COMM, team, 0) == -1);
  CHECK(ncclTeamWorld(NO_COMM).nRanks == 0);
  CHECK(ncclTeamRankToWorld(NO_COMM, team, 0) == -1);
}

static void parameters(void) {
  ncclParamHandle_t handle = (ncclParamHandle_t)99;
  const char *text, **names;
  int length;
  BAD("key is NULL", ncclParamBind(&handle, NULL));
  BAD("out is NULL", ncclParamBind(NULL, "NCCL_ALGO"));
  BAD("not the handle", ncclParamGetStr(handle, &text));
  BAD("not the handle", ncclParamGetStr(NULL, &text));
  BAD("out is NULL", ncclParamGetI64(handle, NULL));
  BAD("value is NULL", ncclParamGetParameter("NCCL_ALGO", NULL, &length));
  text = "", length = 7;
  BAD("no parameter NCCL_NOTHING", ncclParamGetParameter("NCCL_NOTHING", &text, &length));
  CHECK(!text && !length);
  BAD("table is NULL", ncclParamGetAllParameterKeys(NULL, &length));
  BAD("tableLen is NULL", ncclParamGetAllParameterKeys(&names, NULL));
}

// The last error is the thread's own.
static void own_error(int rank) {
  char word[32];
  snprintf(word, sizeof word, "rank %d of 1", rank + 1);
  ncclUniqueId none;
  memset(&none, 0, sizeof none);
  for (int time = 0; time < 200; time++) {
    ncclComm_t made;
    BAD(word, ncclCommInitRank(&made, 1, none, rank + 1));
  }
}

// A thread without an error of its own gets the process's last, each time.
static void others_errors(int rank) {
  (void)rank;
  for (int other = 0; other < 3; other++) {
    char word[32];
    pthread_t thread;
    struct started failing = {own_error, other};
    snprintf(word, sizeof word, "rank %d of 1", other + 1);
    CHECK(!pthread_create(&thread, NULL, run_rank, &failing));
    CHECK(!pthread_join(thread, NULL));
    CHECK(strstr(ncclGetLastError(NULL), word));
  }
}

// On any thread, with a communicator of its own.
static void everything(int rank) {
  (void)rank;
  if (!is_on_host()) use_gpu(0);
  data = allocate(4 * sizeof *data);
  OK(ncclCommInitAll(&comm, 1, NULL));
  creation();
  life();
  operations();
  groups();
  memory();
  devices();
  parameters();
  put(0, 5);
  OK(ncclAllReduce(data, data + 1, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(holds(1, 5));
  OK(ncclCommDestroy(comm));
  release(data);
}

int main(void) {
  load_driver();
  CHECK(!*ncclGetLastError(NULL));
  for (int code = -1; code < 12; code++) CHECK(*ncclGetErrorString(code));
  everything(0);
  run_ranks(4, everything);
  run_ranks(8, own_error);
  run_ranks(1, others_errors);
  puts("all was right");
  return 0;
}
