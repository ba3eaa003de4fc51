// A library of native methods that calls NCCL, as those of XGBoost do in a JVM: the sum of two ranks on the host.
// Needs the JDK's headers.
#include "../../../main/c/nccl.h"
#include <jni.h>

static ncclResult_t sum(ncclComm_t* ranks, int* data) {
  ncclResult_t begun = ncclGroupStart();
  for (int rank = 0; rank < 2 && !begun; rank++)
    begun = ncclAllReduce(data + rank, data + rank, 1, ncclInt32, ncclSum, ranks[rank], NULL);
  ncclResult_t ended = ncclGroupEnd();
  return begun ? begun : ended;
}

// The sum of 1 and 2; throws what NCCL says of an error.
JNIEXPORT jint JNICALL Java_org_nccl4j_it_abi_TaskProgram_00024Task_sum(JNIEnv* env, jclass task) {
  (void)task;
  ncclComm_t ranks[2];
  int data[] = {1, 2};
  ncclResult_t result = ncclCommInitAll(ranks, 2, NULL);
  if (!result) result = sum(ranks, data);
  if (!result) result = ncclCommDestroy(ranks[0]);
  if (!result) result = ncclCommDestroy(ranks[1]);
  if (result)
    (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalStateException"), ncclGetLastError(NULL));
  return data[1];
}
