// The thread of the first collective loads no class of nccl4j: creation has done so. Needs the fake driver,
// and the JVM's record of loaded classes, with the thread of each, in the file that is named.
#include "checks.h"
#include <cuda.h>
#include <dirent.h>

enum { GPUS = 2, COUNT = 16, MOST_MILLISECONDS = 240000 };

static int warms_up(void) {
  DIR* tasks = opendir("/proc/self/task");
  int found = 0;
  for (struct dirent* each; (each = readdir(tasks));) {
    char name[512], is[32] = "";
    snprintf(name, sizeof name, "/proc/self/task/%s/comm", each->d_name);
    FILE* comm = fopen(name, "r");
    if (!comm) continue;
    if (fgets(is, sizeof is, comm)) found |= !strncmp(is, "nccl4j-warm-up", 14);
    fclose(comm);
  }
  closedir(tasks);
  return found;
}

// Prints the classes of nccl4j that this thread loaded, behind some lines, and counts them; returns the
// number of lines.
static int lines(const char* file, int from, int* ours) {
  char line[4096];
  int n = 0;
  FILE* loaded = fopen(file, "r");
  CHECK(loaded);
  while (fgets(line, sizeof line, loaded)) {
    n++;
    if (n <= from || !is_by_this_thread(line) || !strstr(line, "org.nccl4j")) continue;
    ++*ours;
    fputs(line, stdout);
  }
  fclose(loaded);
  return n;
}

int main(int n, char** arguments) {
  CHECK(n == 2);
  ncclComm_t comms[GPUS];
  CUdeviceptr data[GPUS];
  CUstream streams[GPUS];
  CHECK(!cuInit(0));
  for (int gpu = 0; gpu < GPUS; gpu++) {
    CUcontext context;
    CHECK(!cuDevicePrimaryCtxRetain(&context, gpu));
    CHECK(!cuCtxSetCurrent(context));
    CHECK(!cuMemAlloc(data + gpu, 4096));
    CHECK(!cuStreamCreate(streams + gpu, CU_STREAM_NON_BLOCKING));
  }
  OK(ncclCommInitAll(comms, GPUS, NULL));
  for (int ms = 0; ms < MOST_MILLISECONDS && warms_up(); ms++) usleep(1000);
  CHECK(!warms_up());
  int ours = 0, before = lines(arguments[1], INT_MAX, &ours);
  OK(ncclGroupStart());
  for (int gpu = 0; gpu < GPUS; gpu++) {
    void* buffer = (void*)data[gpu];
    OK(ncclAllReduce(buffer, buffer, COUNT, ncclFloat32, ncclSum, comms[gpu], streams[gpu]));
  }
  OK(ncclGroupEnd());
  lines(arguments[1], before, &ours);
  CHECK(!ours);
  for (int gpu = 0; gpu < GPUS; gpu++) OK(ncclCommDestroy(comms[gpu]));
  puts("all was right");
  return 0;
}
