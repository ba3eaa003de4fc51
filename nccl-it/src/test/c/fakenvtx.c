// A tool as NVTX 3 injects it (NVTX_INJECTION64_PATH): writes the ranges of all threads to FAKENVTX_RECORD, a
// line each: the thread, push or pop, the name.
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* record;

static int NVTX_API push(const char* name) {
  fprintf(record, "%lx push %s\n", (unsigned long)pthread_self(), name);
  return 0;
}

static int NVTX_API pop(void) {
  fprintf(record, "%lx pop\n", (unsigned long)pthread_self());
  return 0;
}

__attribute__((destructor)) static void end(void) {
  if (record) fclose(record);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table) {
  record = fopen(getenv("FAKENVTX_RECORD"), "w");
  const NvtxExportTableCallbacks* callbacks = table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable core;
  unsigned size;
  if (!record || !callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size)) return 0;
  if (size <= NVTX_CBID_CORE_RangePop) return 0;
  *core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
  *core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
