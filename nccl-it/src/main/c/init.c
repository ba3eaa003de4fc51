// Communicators: creation, end, and questions.
#include "config.h"

static jbyteArray bytes_of(JNIEnv* env, const ncclUniqueId* ids, int n) {
  jbyteArray made = (*env)->NewByteArray(env, n * UNIQUE_ID_BYTES);
  if (made) (*env)->SetByteArrayRegion(env, made, 0, n * UNIQUE_ID_BYTES, (const jbyte*)ids);
  return made;
}

static ncclResult_t unique_id(ncclUniqueId* id) {
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  jbyteArray made = CALL(env, Object, uniqueId);
  ncclResult_t result = made ? ncclSuccess : result_of(env, ncclSystemError);
  if (made) (*env)->GetByteArrayRegion(env, made, 0, UNIQUE_ID_BYTES, (jbyte*)id->internal);
  leave_frame(env);
  return result;
}

API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId* uniqueId)) {
  NOT_NULL(uniqueId);
  return unique_id(uniqueId);
}

API(ncclResult_t, ncclCommGetUniqueId, (ncclComm_t comm, ncclUniqueId* uniqueId)) {
  NOT_NULL(comm);
  NOT_NULL(uniqueId);
  jint all[NUMBERS];  // of a communicator that is there
  ncclResult_t result = numbers(comm, all);
  return result ? result : unique_id(uniqueId);
}

// Stores the handle of what was begun, whose creation may go on.
static ncclResult_t begun(JNIEnv* env, const struct config* config, jint code, ncclComm_t* into) {
  ncclResult_t result = result_of(env, code);
  if (result && result != ncclInProgress) return result;
  jlong handle;
  (*env)->GetLongArrayRegion(env, config->made, 0, 1, &handle);
  *into = (ncclComm_t)(intptr_t)handle;
  return result;
}

static ncclResult_t init(ncclComm_t* comm, int nranks, int rank, const ncclUniqueId* ids, int n,
                         const ncclConfig_t* given) {
  *comm = NULL;
  if (nranks < 1 || rank < 0 || rank >= nranks)
    return fail_group(fail(ncclInvalidArgument, "rank %d of %d ranks. Remedy: pass a rank from 0 to "
                           "nranks - 1", rank, nranks));
  if (n < 1 || n > nranks)
    return fail_group(fail(ncclInvalidArgument, "%d unique ids for %d ranks. Remedy: pass 1 to nranks "
                           "ids", n, nranks));
  int gpu = current_gpu();
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  struct config config;
  ncclResult_t result = read_config(env, given, &config);
  if (!result) {
    jint code = CALL(env, Int, initRank, (jint)nranks, (jint)rank, (jint)gpu,
                     bytes_of(env, ids, n), config.numbers, config.names, config.made);
    result = begun(env, &config, code, comm);
  }
  leave_frame(env);
  return result;
}

API(ncclResult_t, ncclCommInitRank, (ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank)) {
  CALL_NEEDS(comm);
  return init(comm, nranks, rank, &commId, 1, NULL);
}

API(ncclResult_t, ncclCommInitRankConfig,
    (ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t* config)) {
  CALL_NEEDS(comm);
  return init(comm, nranks, rank, &commId, 1, config);
}

API(ncclResult_t, ncclCommInitRankScalable,
    (ncclComm_t* newcomm, int nranks, int myrank, int nId, ncclUniqueId* commIds,
     ncclConfig_t* config)) {
  CALL_NEEDS(newcomm);
  CALL_NEEDS(commIds);
  return init(newcomm, nranks, myrank, commIds, nId, config);
}

API(ncclResult_t, ncclCommInitAll, (ncclComm_t* comm, int ndev, const int* devlist)) {
  NOT_NULL(comm);
  enum { MOST = 1024 };
  if (ndev < 1 || ndev > MOST)
    return fail(ncclInvalidArgument, "a communicator of %d devices. Remedy: pass 1 to %d", ndev, MOST);
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  struct config config;
  ncclResult_t result = read_config(env, NULL, &config);
  jint gpus[MOST];
  jlong handles[MOST];
  for (int i = 0; i < ndev; i++) gpus[i] = devlist ? devlist[i] : i;
  jintArray devices = (*env)->NewIntArray(env, ndev);
  jlongArray made = (*env)->NewLongArray(env, ndev);
  if (!result && !(devices && made)) result = result_of(env, ncclSystemError);
  if (!result) {
    (*env)->SetIntArrayRegion(env, devices, 0, ndev, gpus);
    result = result_of(env, CALL(env, Int, initAll, devices, config.numbers, config.names, made));
  }
  if (!result) {
    (*env)->GetLongArrayRegion(env, made, 0, ndev, handles);
    for (int i = 0; i < ndev; i++) comm[i] = (ncclComm_t)(intptr_t)handles[i];
  }
  leave_frame(env);
  return result;
}

API(ncclResult_t, ncclCommSplit,
    (ncclComm_t comm, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config)) {
  CALL_NEEDS(comm);
  CALL_NEEDS(newcomm);
  *newcomm = NULL;
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  struct config read;
  ncclResult_t result = read_config(env, config, &read);
  if (!result) {
    jint code = CALL(env, Int, split, handle_of(comm), (jint)color, (jint)key, read.numbers,
                     read.names, read.made);
    result = begun(env, &read, code, newcomm);
  }
  leave_frame(env);
  return result;
}

API(ncclResult_t, ncclCommShrink,
    (ncclComm_t comm, int* excludeRanksList, int excludeRanksCount, ncclComm_t* newcomm,
     ncclConfig_t* config, int shrinkFlags)) {
  CALL_NEEDS(comm);
  CALL_NEEDS(newcomm);
  CALL_NEEDS(excludeRanksList);
  *newcomm = NULL;
  if (excludeRanksCount < 1 || shrinkFlags < 0 || shrinkFlags > 1)
    return fail_group(fail(ncclInvalidArgument, "%d ranks are excluded, with the flags %d. Remedy: "
                           "exclude 1 or more, with NCCL_SHRINK_DEFAULT or NCCL_SHRINK_ABORT",
                           excludeRanksCount, shrinkFlags));
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  struct config read;
  ncclResult_t result = read_config(env, config, &read);
  jintArray excluded = (*env)->NewIntArray(env, excludeRanksCount);
  if (!result && !excluded) result = result_of(env, ncclSystemError);
  if (!result) {
    (*env)->SetIntArrayRegion(env, excluded, 0, excludeRanksCount, (const jint*)excludeRanksList);
    jint code = CALL(env, Int, shrink, handle_of(comm), excluded, (jboolean)(shrinkFlags == 1),
                     read.numbers, read.names, read.made);
    result = begun(env, &read, code, newcomm);
  }
  leave_frame(env);
  return result;
}

// A new rank has no communicator, and joins as in the first creation.
API(ncclResult_t, ncclCommGrow,
    (ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank, ncclComm_t* newcomm,
     ncclConfig_t* config)) {
  CALL_NEEDS(newcomm);
  if (!comm) {
    CALL_NEEDS(uniqueId);
    return init(newcomm, nRanks, rank, uniqueId, 1, config);
  }
  *newcomm = NULL;
  if (rank != -1)
    return fail_group(fail(ncclInvalidArgument, "rank %d grows a communicator of its own. Remedy: "
                           "pass -1, since ranks keep their numbers", rank));
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  struct config read;
  ncclResult_t result = read_config(env, config, &read);
  if (!result) {
    jbyteArray id = uniqueId ? bytes_of(env, uniqueId, 1) : NULL;
    jint code = CALL(env, Int, grow, handle_of(comm), (jint)nRanks, id, read.numbers, read.names,
                     read.made);
    result = begun(env, &read, code, newcomm);
  }
  leave_frame(env);
  return result;
}

// A call of a communicator alone.
#define ON_COMM(call)                      \
  CALL_NEEDS(comm);                        \
  JNIEnv* env = enter();                   \
  if (!env) return ncclSystemError;        \
  return result_of(env, call)

// NULL is no communicator, and nothing to end or to free.
API(ncclResult_t, ncclCommFinalize, (ncclComm_t comm)) {
  if (!comm) return ncclSuccess;
  ON_COMM(CALL(env, Int, finish, handle_of(comm)));
}

API(ncclResult_t, ncclCommDestroy, (ncclComm_t comm)) {
  if (!comm) return ncclSuccess;
  ON_COMM(CALL(env, Int, close, handle_of(comm), (jboolean)JNI_FALSE));
}

API(ncclResult_t, ncclCommAbort, (ncclComm_t comm)) {
  if (!comm) return ncclSuccess;
  ON_COMM(CALL(env, Int, close, handle_of(comm), (jboolean)JNI_TRUE));
}

API(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int revokeFlags)) {
  if (!comm) return ncclSuccess;
  if (revokeFlags)
    return fail(ncclInvalidArgument, "a communicator is revoked with the flags %d. Remedy: pass "
                "NCCL_REVOKE_DEFAULT", revokeFlags);
  ON_COMM(CALL(env, Int, revoke, handle_of(comm)));
}

API(ncclResult_t, ncclCommSuspend, (ncclComm_t comm, int flags)) {
  if (flags != 1)
    return fail_group(fail(ncclInvalidArgument, "a communicator is suspended with the flags %d. "
                           "Remedy: pass NCCL_SUSPEND_MEM", flags));
  ON_COMM(CALL(env, Int, suspend, handle_of(comm), (jboolean)JNI_TRUE));
}

API(ncclResult_t, ncclCommResume, (ncclComm_t comm)) {
  ON_COMM(CALL(env, Int, suspend, handle_of(comm), (jboolean)JNI_FALSE));
}

API(ncclResult_t, ncclCommMemStats, (ncclComm_t comm, int stat, uint64_t* value)) {
  NOT_NULL(comm);
  NOT_NULL(value);
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jlong bytes = 0;
  ncclResult_t result = value_of(env, CALL(env, Long, memory, handle_of(comm), (jint)stat), &bytes);
  *value = (uint64_t)bytes;
  return result;
}

API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t* asyncError)) {
  NOT_NULL(comm);
  NOT_NULL(asyncError);
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jint code = CALL(env, Int, asyncError, handle_of(comm));
  if (code < 0) return result_of(env, -code);
  *asyncError = result_of(env, code);  // whose text is then the last error
  return ncclSuccess;
}

ncclResult_t numbers(ncclComm_t comm, jint* all) {
  JNIEnv* env = enter_frame();
  if (!env) return ncclSystemError;
  jintArray into = (*env)->NewIntArray(env, NUMBERS);
  ncclResult_t result = into ? result_of(env, CALL(env, Int, numbers, handle_of(comm), into))
                             : result_of(env, ncclSystemError);
  if (!result) (*env)->GetIntArrayRegion(env, into, 0, NUMBERS, all);
  leave_frame(env);
  return result;
}

static ncclResult_t number(ncclComm_t comm, int which, int* into) {
  jint all[NUMBERS];
  ncclResult_t result = numbers(comm, all);
  if (!result) *into = all[which];
  return result;
}

API(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int* count)) {
  NOT_NULL(comm);
  NOT_NULL(count);
  return number(comm, N_RANKS, count);
}

API(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int* rank)) {
  NOT_NULL(comm);
  NOT_NULL(rank);
  return number(comm, RANK, rank);
}

API(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int* device)) {
  NOT_NULL(comm);
  NOT_NULL(device);
  return number(comm, GPU, device);
}

// Programs of older versions have a shorter structure.
#define COVERS(props, field) \
  ((props)->size >= offsetof(ncclCommProperties_t, field) + sizeof (props)->field)

API(ncclResult_t, ncclCommQueryProperties, (ncclComm_t comm, ncclCommProperties_t* props)) {
  NOT_NULL(comm);
  NOT_NULL(props);
  if (props->magic != (unsigned)CONFIG_MAGIC || !COVERS(props, ginType))
    return fail(ncclInvalidArgument, "properties have the magic number 0x%x and %zu bytes. Remedy: "
                "initialize them with NCCL_COMM_PROPERTIES_INITIALIZER", props->magic, props->size);
  jint all[NUMBERS];
  ncclResult_t result = numbers(comm, all);
  if (result) return result;
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jlong nvml = 0;
  result = value_of(env, CALL(env, Int, nvmlIndex, handle_of(comm)), &nvml);
  if (result) return result;
  props->nRanks = all[N_RANKS];
  props->rank = all[RANK];
  props->cudaDev = all[GPU];
  props->nvmlDev = (int)nvml;
  props->deviceApiSupport = props->multimemSupport = false;  // see device.c
  props->ginType = 0;
  if (COVERS(props, nLsaTeams)) props->nLsaTeams = all[N_RANKS] / all[LSA_SIZE];
  if (COVERS(props, hostRmaSupport)) props->hostRmaSupport = true;
  if (COVERS(props, railedGinType)) props->railedGinType = 0;
  return ncclSuccess;
}

API(ncclTeam_t, ncclTeamWorld, (ncclComm_t comm)) {
  jint all[NUMBERS];
  if (!comm || numbers(comm, all)) return (ncclTeam_t){0, 0, 0};
  return (ncclTeam_t){all[N_RANKS], all[RANK], 1};
}

API(int, ncclTeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank)) {
  jint all[NUMBERS];
  if (!comm || numbers(comm, all)) return -1;
  return all[RANK] + (rank - team.rank) * team.stride;
}
