// A thread that another library attaches to the JVM, and detaches again, calls NCCL before and after. Needs
// NCCL4J_DEVICE=host and the JDK's headers.
#include "checks.h"
#include "jvm.h"

static ncclComm_t comm;

static void use(void) {
  int data = 5;
  OK(ncclAllReduce(&data, &data, 1, ncclInt32, ncclSum, comm, NULL));
  CHECK(data == 5);
}

static void* attached_by_others(void* given) {
  JavaVM* vm = given;
  JNIEnv* env;
  for (int time = 0; time < 3; time++) {
    CHECK(!(*vm)->AttachCurrentThread(vm, (void**)&env, NULL));
    use();
    CHECK(!(*vm)->DetachCurrentThread(vm));
  }
  use();
  return NULL;
}

int main(void) {
  OK(ncclCommInitAll(&comm, 1, NULL));
  use();
  pthread_t thread;
  CHECK(!pthread_create(&thread, NULL, attached_by_others, the_jvm()));
  CHECK(!pthread_join(thread, NULL));
  use();
  OK(ncclCommDestroy(comm));
  puts("all was right");
  return 0;
}
