// A function of the program's end has the JVM collect all garbage and then calls NCCL: libjvm.so has
// destroyed its static objects by then. Needs NCCL4J_DEVICE=host and the JDK's headers.
#include "checks.h"
#include "jvm.h"

static ncclComm_t comm;

static void use(void) {
  int data = 5;
  OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(data == 5);
}

static void collect(void) {
  JavaVM* vm = the_jvm();
  JNIEnv* env;
  CHECK(!(*vm)->AttachCurrentThreadAsDaemon(vm, (void**)&env, NULL));
  jclass system = (*env)->FindClass(env, "java/lang/System");
  CHECK(system);
  (*env)->CallStaticVoidMethod(env, system, (*env)->GetStaticMethodID(env, system, "gc", "()V"));
  CHECK(!(*env)->ExceptionCheck(env));
}

// Registered before the JVM starts, so it runs after the functions that libjvm.so registers.
static void last(void) {
  collect();
  use();
  collect();
  OK(ncclCommDestroy(comm));
  puts("all was right");
}

int main(void) {
  CHECK(!atexit(last));
  OK(ncclCommInitAll(&comm, 1, NULL));
  use();
  return 0;
}
