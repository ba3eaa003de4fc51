// NCCL's interface, versions 2.28 to 2.30, as far as programs see it: numbers, structures and
// functions. Written for this library from the documented interface; the layouts are asserted here
// and by AbiLayoutTest.
#ifndef NCCL4J_NCCL_H
#define NCCL4J_NCCL_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VERSION = 22809, CONFIG_MAGIC = (int)0xcafebeef, SIMULATION_MAGIC = 0x74685283 };
enum { UNDEFINED = INT_MIN, UNIQUE_ID_BYTES = 128 };

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8
} ncclResult_t;

typedef enum {
  ncclInt8,
  ncclUint8,
  ncclInt32,
  ncclUint32,
  ncclInt64,
  ncclUint64,
  ncclFloat16,
  ncclFloat32,
  ncclFloat64,
  ncclBfloat16,
  ncclFloat8e4m3,
  ncclFloat8e5m2,
  ncclNumTypes
} ncclDataType_t;

typedef enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclNumOps } ncclRedOp_t;
typedef enum { ncclScalarDevice, ncclScalarHostImmediate } ncclScalarResidence_t;

// Numbers of Handles, in place of pointers.
typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;
typedef void* cudaStream_t;

typedef struct {
  char internal[UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking, cgaClusterSize, minCTAs, maxCTAs;
  const char* netName;
  int splitShare, trafficClass;
  const char* commName;
  int collnetEnable, CTAPolicy, shrinkShare, nvlsCTAs;
  int nChannelsPerNetPeer, nvlinkCentricSched;                        // since 2.28
  int graphUsageMode, numRmaCtx, maxP2pPeers, graphStreamOrdering;  // since 2.29 and 2.30
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  float estimatedTime;
} ncclSimInfo_t;

typedef struct {
  int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

typedef struct {
  int nRanks, rank, stride;
} ncclTeam_t;

typedef struct {
  void* base;
} ncclMultimemHandle_t;

typedef struct {
  size_t size;
  unsigned magic, version;
  int rank, nRanks, cudaDev, nvmlDev;
  bool deviceApiSupport, multimemSupport;
  int ginType, nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
} ncclCommProperties_t;

_Static_assert(sizeof(ncclResult_t) == 4 && sizeof(ncclRedOp_t) == 4, "enums are ints");
_Static_assert(ncclFloat8e5m2 == 11 && ncclNumOps == 5, "numbers of types and operators");
_Static_assert(sizeof(ncclUniqueId) == 128, "ncclUniqueId");
_Static_assert(offsetof(ncclConfig_t, blocking) == 16, "ncclConfig_t of 2.14");
_Static_assert(offsetof(ncclConfig_t, netName) == 32, "ncclConfig_t of 2.17");
_Static_assert(offsetof(ncclConfig_t, splitShare) == 40, "ncclConfig_t of 2.18");
_Static_assert(offsetof(ncclConfig_t, commName) == 48, "ncclConfig_t of 2.25");
_Static_assert(offsetof(ncclConfig_t, nvlsCTAs) == 68, "ncclConfig_t of 2.27");
_Static_assert(offsetof(ncclConfig_t, graphUsageMode) == 80, "ncclConfig_t of 2.28");
_Static_assert(sizeof(ncclConfig_t) == 96, "ncclConfig_t of 2.30");
_Static_assert(sizeof(ncclSimInfo_t) == 24, "ncclSimInfo_t");
_Static_assert(offsetof(ncclSimInfo_t, estimatedTime) == 16, "ncclSimInfo_t");
_Static_assert(sizeof(ncclWaitSignalDesc_t) == 16, "ncclWaitSignalDesc_t");
_Static_assert(sizeof(ncclTeam_t) == 12, "ncclTeam_t");
_Static_assert(offsetof(ncclCommProperties_t, ginType) == 36, "ncclCommProperties_t");
_Static_assert(sizeof(ncclCommProperties_t) == 52 + 4, "ncclCommProperties_t");

// Defines an exported function and its twin for profilers.
#define API(type, name, parameters)                                                    \
  __attribute__((visibility("default"))) type name parameters;                         \
  __attribute__((visibility("default"), alias(#name))) type p##name parameters;        \
  type name parameters

#endif
