// Physical memory in other processes: by file descriptor, or by a fabric handle, which is the exporting
// process and its descriptor, with a mark at its end.
#define FABRIC_MARK 0x6e63636c34666162ull
CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle h,
                                      CUmemAllocationHandleType t, u64 f) {
  OR_FAIL(NO, "%d,%llu", t, f);
  if (t != CU_MEM_HANDLE_TYPE_FABRIC) {
    *(int*)out = fcntl(physical(h)->fd, F_DUPFD_CLOEXEC, 0);
    return CUDA_SUCCESS;
  }
  if (!(physical(h)->prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC))
    return misuse("memory without a fabric handle is exported by one");
  u64 words[8] = {getpid(), physical(h)->fd, physical(h)->size, 3, 4, 5, 6, FABRIC_MARK};
  memcpy(out, words, sizeof words);
  return CUDA_SUCCESS;
}
static CUresult importFabric(CUmemGenericAllocationHandle* h, const void* exported) {
  u64 words[8];
  memcpy(words, exported, sizeof words);
  if (words[7] != FABRIC_MARK || words[3] != 3 || words[6] != 6) return CUDA_ERROR_INVALID_HANDLE;
  if (fabric != FABRIC || fabric_imports == 0) return CUDA_ERROR_NOT_PERMITTED;
  if (fabric_imports > 0) fabric_imports--;
  char name[64];
  snprintf(name, sizeof name, "/proc/%llu/fd/%llu", words[0], words[1]);
  int fd = open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp prop = {.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC};
  prop.location.id = -1;  // of another host
  *h = physicalOf(fd, words[2], &prop);
  return CUDA_SUCCESS;
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* h, void* os,
                                        CUmemAllocationHandleType t) {
  OR_FAIL(NEW, "%llu,%d", t == CU_MEM_HANDLE_TYPE_FABRIC ? 0 : (u64)os, t);
  if (t == CU_MEM_HANDLE_TYPE_FABRIC) {
    CUresult result = importFabric(h, os);
    if (result) call(GONE, "refused");
    return result;
  }
  int fd = fcntl((int)(u64)os, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  *h = physicalOf(fd, lseek(fd, 0, SEEK_END), NULL);
  char name[64], made[64] = "";
  int where = 0, device = 0;
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  if (readlink(name, made, sizeof made - 1) > 0) sscanf(made, "/memfd:fake-%d-%d", &where, &device);
  physical(*h)->prop.location.type = where;
  physical(*h)->prop.location.id = device;
  return CUDA_SUCCESS;
}
