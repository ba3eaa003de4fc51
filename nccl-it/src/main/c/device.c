// Functions that programs need for kernels of their own that communicate: NCCL's are compiled
// against NCCL's own structures in GPU memory, which nccl4j does not have.
#include "bridge.h"

static ncclResult_t no_device_api(const char* function) {
  return fail(ncclInvalidUsage,
              "%s: nccl4j has no device communicators of NCCL's layout. Remedy: use collectives, or "
              "nccl4j's own device interface (nccl4j_device.cuh) from Java",
              function);
}

API(ncclResult_t, ncclDevCommCreate, (ncclComm_t comm, const void* reqs, void* outDevComm)) {
  NOT_NULL(comm);
  NOT_NULL(reqs);
  NOT_NULL(outDevComm);
  return no_device_api(__func__);
}

API(ncclResult_t, ncclDevCommDestroy, (ncclComm_t comm, const void* devComm)) {
  NOT_NULL(comm);
  NOT_NULL(devComm);
  return no_device_api(__func__);
}

API(ncclResult_t, ncclGetMultimemDevicePointer,
    (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void** outPtr)) {
  (void)window, (void)offset, (void)multimem;
  NOT_NULL(outPtr);
  return no_device_api(__func__);
}

API(ncclResult_t, ncclLsaBarrierCreateRequirement,
    (ncclTeam_t team, int nBarriers, void* outHandle, void* outReq)) {
  (void)team, (void)nBarriers, (void)outHandle, (void)outReq;
  return no_device_api(__func__);
}

API(ncclResult_t, ncclGinBarrierCreateRequirement,
    (ncclComm_t comm, ncclTeam_t team, int nBarriers, void* outHandle, void* outReq)) {
  (void)comm, (void)team, (void)nBarriers, (void)outHandle, (void)outReq;
  return no_device_api(__func__);
}

API(ncclResult_t, ncclLLA2ACreateRequirement,
    (int nBlocks, int nSlots, void* outHandle, void* outReq)) {
  (void)nBlocks, (void)nSlots, (void)outHandle, (void)outReq;
  return no_device_api(__func__);
}

API(ncclResult_t, ncclGinOutboxCreateRequirement,
    (int nBlocks, int size_log2, void* outHandle, void* outReq)) {
  (void)nBlocks, (void)size_log2, (void)outHandle, (void)outReq;
  return no_device_api(__func__);
}

API(ncclResult_t, ncclGinInboxA2ACreateRequirement,
    (ncclTeam_t peers, int nBlocks, int size_log2, void* outHandle, void* outReq)) {
  (void)peers, (void)nBlocks, (void)size_log2, (void)outHandle, (void)outReq;
  return no_device_api(__func__);
}

// Slots have 8 bytes.
API(int, ncclLLA2ACalcSlots, (int maxElts, int maxEltSize)) {
  return maxElts * ((maxEltSize + 7) / 8);
}

// All LSA teams have the same size, and their ranks follow each other.
static bool has_teams(ncclComm_t comm, jint* all, const char* function) {
  return !(comm ? numbers(comm, all) : null_argument(function, "comm"));
}

API(ncclTeam_t, ncclTeamLsa, (ncclComm_t comm)) {
  jint all[NUMBERS];
  if (!has_teams(comm, all, __func__)) return (ncclTeam_t){0, 0, 0};
  return (ncclTeam_t){all[LSA_SIZE], all[RANK] % all[LSA_SIZE], 1};
}

API(ncclTeam_t, ncclTeamRail, (ncclComm_t comm)) {
  jint all[NUMBERS];
  if (!has_teams(comm, all, __func__)) return (ncclTeam_t){0, 0, 0};
  return (ncclTeam_t){all[N_RANKS] / all[LSA_SIZE], all[RANK] / all[LSA_SIZE], all[LSA_SIZE]};
}

API(int, ncclTeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank)) {
  jint all[NUMBERS];
  if (!has_teams(comm, all, __func__)) return -1;
  return all[RANK] % all[LSA_SIZE] + (rank - team.rank) * team.stride;
}
