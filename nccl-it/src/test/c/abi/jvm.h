// The JVM that libnccl.so.2 has started, as other libraries of the program find it. Needs the JDK's headers.
#include <dlfcn.h>
#include <jni.h>

// libjvm.so, which libnccl.so.2 has loaded from a place of its choice.
static inline void* jvm_library(void) {
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

static inline JavaVM* the_jvm(void) {
  jint (*list)(JavaVM**, jsize, jsize*) = dlsym(jvm_library(), "JNI_GetCreatedJavaVMs");
  JavaVM* vm;
  jsize n;
  CHECK(list && !list(&vm, 1, &n) && n == 1);
  return vm;
}
