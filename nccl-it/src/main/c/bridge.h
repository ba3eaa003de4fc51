// The way into Java: threads, calls and errors. Functions here are the library's own.
#ifndef NCCL4J_BRIDGE_H
#define NCCL4J_BRIDGE_H
#include "nccl.h"
#include <jni.h>

// Defines an exported function and its twin for profilers.
#define API(type, name, parameters)                                               \
  __attribute__((visibility("default"))) type name parameters;                    \
  __attribute__((visibility("default"), alias(#name))) type p##name parameters;   \
  type name parameters

// Methods of org.nccl4j.it.abi.Entry: name, signature.
#define METHODS(M)                                            \
  M(lastError, "()Ljava/lang/String;")                        \
  M(uniqueId, "()[B")                                         \
  M(initRank, "(III[B[I[Ljava/lang/String;[J)I")              \
  M(initAll, "([I[I[Ljava/lang/String;[J)I")                  \
  M(split, "(JII[I[Ljava/lang/String;[J)I")                   \
  M(shrink, "(J[IZ[I[Ljava/lang/String;[J)I")                 \
  M(grow, "(JI[B[I[Ljava/lang/String;[J)I")                   \
  M(finish, "(J)I")                                           \
  M(close, "(JZ)I")                                           \
  M(depart, "()I")                                            \
  M(revoke, "(J)I")                                           \
  M(suspend, "(JZ)I")                                         \
  M(asyncError, "(J)I")                                       \
  M(numbers, "(J[I)I")                                        \
  M(nvmlIndex, "(J)I")                                        \
  M(memory, "(JI)J")                                          \
  M(launch, "(JJJJJJ)I")                                      \
  M(launchWith, "(IJJJJJJ)I")                                 \
  M(preMulSum, "(JIJI)I")                                     \
  M(dropOperator, "(JI)I")                                    \
  M(groupStart, "()I")                                        \
  M(groupEnd, "()I")                                          \
  M(groupSimulate, "()D")                                     \
  M(failGroup, "(Ljava/lang/String;)V")                       \
  M(allocate, "(IJ)J")                                        \
  M(free, "(J)I")                                             \
  M(register, "(JJJZZ)J")                                     \
  M(deregister, "(JJZ)I")                                     \
  M(windowAddress, "(J)J")                                    \
  M(peerAddress, "(JJIZ)J")                                   \
  M(multicastAddress, "(JJ)J")                                \
  M(put, "(JJJJJJJ)I")                                        \
  M(signal, "(JIJ)I")                                         \
  M(waitSignal, "(JJIJ)I")                                    \
  M(parameter, "(Ljava/lang/String;[Ljava/lang/String;)I")    \
  M(parameters, "()[Ljava/lang/String;")

#define M(name, signature) jmethodID m_##name;
struct bridge {
  jclass entry;
  METHODS(M)
};
#undef M
extern struct bridge bridge;

// The order of org.nccl4j.operation.Operation.
enum operation {
  BROADCAST,
  REDUCE,
  ALL_GATHER,
  REDUCE_SCATTER,
  ALL_REDUCE,
  ALL_TO_ALL,
  SCATTER,
  GATHER,
  SEND,
  RECV,
  PUT_SIGNAL
};

// The order of org.nccl4j.it.abi.ConfigField.
enum config_field {
  BLOCKING,
  CGA_CLUSTER_SIZE,
  MIN_CTAS,
  MAX_CTAS,
  TRAFFIC_CLASS,
  CTA_POLICY,
  NVLS_CTAS,
  CHANNELS_PER_NET_PEER,
  CONFIG_FIELDS
};

// The bits of org.nccl4j.device.kernel.CallShape.
enum { OPERATION_SHIFT = 58, TYPE_SHIFT = 53, OP_SHIFT = 49 };
static inline jlong call_shape(enum operation operation, int type, int op, int root) {
  return (jlong)((uint64_t)operation << OPERATION_SHIFT | (uint64_t)type << TYPE_SHIFT |
                 (uint64_t)op << OP_SHIFT | (uint32_t)root);
}

// The JVM as the calling thread sees it, started or joined at the first call; NULL after an error,
// which is then the last one and a ncclSystemError.
JNIEnv* enter(void);
// True if the process has a JVM that the library uses.
bool is_running(void);
// Begins and ends what makes local references.
JNIEnv* enter_frame(void);
void leave_frame(JNIEnv* env);

// For a forked child, in which no thread frees the locks that others had.
void renew_errors(void);
void renew_parameters(void);

// Keeps the text of an error, and returns its code.
ncclResult_t fail(ncclResult_t code, const char* format, ...) __attribute__((format(printf, 2, 3)));
// The same with the text of what Java's code stands for; success and progress are returned alone.
ncclResult_t result_of(JNIEnv* env, jint code);
// A handle, an address or a size, or a negative code; stores the former.
ncclResult_t value_of(JNIEnv* env, jlong value, jlong* into);
ncclResult_t null_argument(const char* function, const char* argument);
// Returns the code of the error that was kept last. It fails the thread's group if one is open: the
// group's end launches nothing and gives this error. For calls that belong to a group.
ncclResult_t fail_group(ncclResult_t code);

#define CALL(env, kind, name, ...) \
  (*(env))->CallStatic##kind##Method(env, bridge.entry, bridge.m_##name, ##__VA_ARGS__)
#define NOT_NULL(argument) \
  if (!(argument)) return null_argument(__func__, #argument)

// The same for a call that belongs to a group.
#define CALL_NEEDS(argument) \
  if (!(argument)) return fail_group(null_argument(__func__, #argument))

// What a communicator knows of itself.
enum { N_RANKS, RANK, GPU, LSA_SIZE, NUMBERS };
ncclResult_t numbers(ncclComm_t comm, jint* all);

static inline jlong handle_of(const void* handle) { return (jlong)(intptr_t)handle; }

#endif
