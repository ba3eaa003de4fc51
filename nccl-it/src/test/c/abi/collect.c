// A function of the program's end has the JVM collect all garbage and then calls NCCL: libjvm.so has
// destroyed its static objects by then. Needs NCCL4J_DEVICE=host and the JDK's headers.
#include "checks.h"
#include <dlfcn.h>
#include <jni.h>

static ncclComm_t comm;

static void use(void) {
  int data = 5;
  OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(data == 5);
}

// libjvm.so, which libnccl.so.2 has loaded from a place of its choice.
static void* jvm_library(void) {
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  do CHECK(fgets(line, sizeof line, maps));
  while (!strstr(line, "/libjvm.so"));
  fclose(maps);
  line[strcspn(line, "\n")] = 0;
  void* library = dlopen(strchr(line, '/'), RTLD_NOW | RTLD_NOLOAD);
  CHECK(library);
  return library;
}

static void collect(void) {
  jint (*list)(JavaVM**, jsize, jsize*) = dlsym(jvm_library(), "JNI_GetCreatedJavaVMs");
  JavaVM* vm;
  JNIEnv* env;
  jsize n;
  CHECK(list && !list(&vm, 1, &n) && n == 1);
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
