// The fields of an ncclConfig_t that a call passes on.
#ifndef NCCL4J_CONFIG_H
#define NCCL4J_CONFIG_H
#include "bridge.h"

struct config {
  jintArray numbers;   // by enum config_field; NULL for no configuration
  jobjectArray names;  // netName and commName
  jlongArray made;     // one element, which takes the new communicator's handle
};

// Reads a configuration, which may be NULL; makes local references.
ncclResult_t read_config(JNIEnv* env, const ncclConfig_t* from, struct config* into);
// The calling thread's current GPU; 0 if it has none.
int current_gpu(void);

#endif
