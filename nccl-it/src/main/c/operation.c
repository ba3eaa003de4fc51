// Collectives, sends and receives, groups, operators.
#include "bridge.h"
#include <string.h>

static const int TYPE_BYTES[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static ncclResult_t unknown_type(int type) {
  return fail(ncclInvalidArgument, "%d is not a type. Remedy: pass an ncclDataType_t, ncclInt8 to "
              "ncclFloat8e5m2", type);
}

struct call {
  enum operation operation;
  int type, op, root;
  const void *send, *recv;
  size_t count;
  cudaStream_t stream;
};

// With an operator that the program has created.
static ncclResult_t launch_with(ncclComm_t comm, const struct call* call) {
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  return result_of(env, CALL(env, Int, launchWith, (jint)call->op, handle_of(comm),
                             call_shape(call->operation, call->type, ncclSum, call->root),
                             handle_of(call->send), handle_of(call->recv), (jlong)call->count,
                             handle_of(call->stream)));
}

static inline ncclResult_t launch(const char* function, ncclComm_t comm, struct call call) {
  if (__builtin_expect(!comm, 0)) return fail_group(null_argument(function, "comm"));
  if (__builtin_expect((unsigned)call.type >= ncclNumTypes, 0))
    return fail_group(unknown_type(call.type));
  if (__builtin_expect(call.op < 0, 0))
    return fail_group(fail(ncclInvalidArgument,
                           "%s: %d is not an operator. Remedy: pass an ncclRedOp_t", function,
                           call.op));
  if (__builtin_expect(call.op >= ncclNumOps, 0)) return launch_with(comm, &call);
  JNIEnv* env = enter();
  if (__builtin_expect(!env, 0)) return ncclSystemError;
  return result_of(env, CALL(env, Int, launch, handle_of(comm),
                             call_shape(call.operation, call.type, call.op, call.root),
                             handle_of(call.send), handle_of(call.recv), (jlong)call.count,
                             handle_of(call.stream)));
}

#define LAUNCH(...) return launch(__func__, comm, (struct call){__VA_ARGS__})

API(ncclResult_t, ncclAllReduce,
    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
     ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(ALL_REDUCE, datatype, op, 0, sendbuff, recvbuff, count, stream);
}

API(ncclResult_t, ncclReduce,
    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op,
     int root, ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(REDUCE, datatype, op, root, sendbuff, recvbuff, count, stream);
}

API(ncclResult_t, ncclReduceScatter,
    (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op,
     ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(REDUCE_SCATTER, datatype, op, 0, sendbuff, recvbuff, recvcount, stream);
}

API(ncclResult_t, ncclBroadcast,
    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
     ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(BROADCAST, datatype, ncclSum, root, sendbuff, recvbuff, count, stream);
}

API(ncclResult_t, ncclBcast,
    (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
     cudaStream_t stream)) {
  LAUNCH(BROADCAST, datatype, ncclSum, root, buff, buff, count, stream);
}

API(ncclResult_t, ncclAllGather,
    (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
     ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(ALL_GATHER, datatype, ncclSum, 0, sendbuff, recvbuff, sendcount, stream);
}

API(ncclResult_t, ncclAlltoAll,
    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, ncclComm_t comm,
     cudaStream_t stream)) {
  LAUNCH(ALL_TO_ALL, datatype, ncclSum, 0, sendbuff, recvbuff, count, stream);
}

API(ncclResult_t, ncclGather,
    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
     ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(GATHER, datatype, ncclSum, root, sendbuff, recvbuff, count, stream);
}

API(ncclResult_t, ncclScatter,
    (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
     ncclComm_t comm, cudaStream_t stream)) {
  LAUNCH(SCATTER, datatype, ncclSum, root, sendbuff, recvbuff, count, stream);
}

API(ncclResult_t, ncclSend,
    (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
     cudaStream_t stream)) {
  LAUNCH(SEND, datatype, ncclSum, peer, sendbuff, NULL, count, stream);
}

API(ncclResult_t, ncclRecv,
    (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
     cudaStream_t stream)) {
  LAUNCH(RECV, datatype, ncclSum, peer, NULL, recvbuff, count, stream);
}

API(ncclResult_t, ncclGroupStart, (void)) {
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, groupStart)) : ncclSystemError;
}

API(ncclResult_t, ncclGroupEnd, (void)) {
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, groupEnd)) : ncclSystemError;
}

// The group ends in any case, and is launched if there is nothing to fill in.
API(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t* simInfo)) {
  if (!simInfo) return ncclGroupEnd();
  if (simInfo->magic != (unsigned)SIMULATION_MAGIC || simInfo->size < sizeof *simInfo) {
    fail_group(fail(ncclInvalidArgument, "ncclSimInfo_t has the magic number 0x%x and %zu bytes. "
                    "Remedy: initialize it with NCCL_SIM_INFO_INITIALIZER", simInfo->magic,
                    simInfo->size));
    return ncclGroupEnd();
  }
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jdouble micros = CALL(env, Double, groupSimulate);
  if (micros < 0 || (*env)->ExceptionCheck(env)) return result_of(env, micros < 0 ? (jint)-micros : ncclSuccess);
  if (micros > 0) simInfo->estimatedTime = (float)micros;
  return ncclSuccess;
}

API(ncclResult_t, ncclRedOpCreatePreMulSum,
    (ncclRedOp_t* op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
     ncclComm_t comm)) {
  NOT_NULL(op);
  NOT_NULL(scalar);
  NOT_NULL(comm);
  if ((unsigned)datatype >= ncclNumTypes) return unknown_type(datatype);
  if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
    return fail(ncclInvalidArgument, "%d is not a residence of a scalar. Remedy: pass ncclScalarDevice "
                "or ncclScalarHostImmediate", residence);
  JNIEnv* env = enter();
  if (!env) return ncclSystemError;
  jlong value = 0;
  if (residence == ncclScalarDevice) value = handle_of(scalar);
  else memcpy(&value, scalar, TYPE_BYTES[datatype]);
  jlong made = 0;
  ncclResult_t result = value_of(env, CALL(env, Int, preMulSum, handle_of(comm), (jint)datatype, value,
                                           (jint)residence), &made);
  if (!result) *op = (ncclRedOp_t)made;
  return result;
}

API(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  NOT_NULL(comm);
  JNIEnv* env = enter();
  return env ? result_of(env, CALL(env, Int, dropOperator, handle_of(comm), (jint)op))
             : ncclSystemError;
}
