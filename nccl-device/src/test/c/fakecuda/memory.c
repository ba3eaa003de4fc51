// Memory of cuMemAlloc and cuMemHostAlloc, for questions about an address. Larger memory of a device
// is a file, so that network cards can map it, and other processes whole blocks.
#define BLOCK (2 << 20)
static struct {
  CUdeviceptr at;
  size_t size;
  int type, device, fd;
} known[4096];
static void* know(size_t n, CUmemorytype type) {
  int file = type == CU_MEMORYTYPE_DEVICE && n >= BLOCK;
  int fd = file ? memfd_create("fake", MFD_CLOEXEC) : -1;
  if (file && ftruncate(fd, (n + 4095) / 4096 * 4096)) return NULL;
  void* p = file ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : calloc(1, n);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++)
    if (!known[i].at) {
      known[i].size = n;
      known[i].type = type;
      known[i].device = device_of(current);
      known[i].fd = fd;
      __atomic_store_n(&known[i].at, (CUdeviceptr)p, __ATOMIC_RELEASE);  // last: others look meanwhile
      break;
    }
  pthread_mutex_unlock(&lock);
  return p;
}
static void forget(void* p) {
  int fd = -1;
  size_t freed = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++)
    if (known[i].at == (CUdeviceptr)p) {
      known[i].at = 0;
      if (known[i].type == CU_MEMORYTYPE_DEVICE) freed = known[i].size;
      fd = known[i].fd;
      if (fd >= 0) munmap(p, known[i].size);
    }
  pthread_mutex_unlock(&lock);
  give(freed);
  if (fd >= 0) {
    if (flock(fd, LOCK_EX | LOCK_NB)) call(NO, "misuse: another process has it open");
    close(fd);
  } else {
    free(p);
  }
}
CUresult cuMemAlloc(CUdeviceptr* p, size_t n) {
  UNSAFE();
  OR_FAIL(NEW, "%zu", n);
  if (!take(n)) {
    call(GONE, "no memory");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *p = (CUdeviceptr)know(n, CU_MEMORYTYPE_DEVICE);
  return CUDA_SUCCESS;
}
CUresult cuMemFree(CUdeviceptr p) {
  UNSAFE();
  forget((void*)p);
  return call(GONE, "");
}
CUresult cuMemHostAlloc(void** p, size_t n, unsigned f) {
  UNSAFE();
  OR_FAIL(NEW, "%zu,%u", n, f);
  *p = know(n, CU_MEMORYTYPE_HOST);
  return CUDA_SUCCESS;
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* d, void* p, unsigned f) {
  OR_FAIL(NO, "%u", f);
  *d = (CUdeviceptr)p;
  return CUDA_SUCCESS;
}
CUresult cuMemFreeHost(void* p) { forget(p); return call(GONE, ""); }
// Small copies from the host are on their way when the call returns: they arrive when somebody waits
// for their stream, or uses it again.
static struct {
  CUdeviceptr to;
  CUstream stream;
  size_t n;
  char bytes[64 << 10];
} on_its_way;
static void arriveLocked(void) {
  memcpy((void*)on_its_way.to, on_its_way.bytes, on_its_way.n);
  on_its_way.n = 0;
}
static void arrive(CUstream t) {
  pthread_mutex_lock(&lock);
  if (on_its_way.stream == t) arriveLocked();
  pthread_mutex_unlock(&lock);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void* s, size_t n, CUstream t) {
  LEGACY(t);
  OR_FAIL(NO, "%zu,%llx", n, (u64)t);
  pthread_mutex_lock(&lock);
  arriveLocked();  // what another thread copied must not be lost
  if (n > sizeof on_its_way.bytes) {
    memcpy((void*)d, s, n);
  } else {
    on_its_way.to = d;
    on_its_way.stream = t;
    on_its_way.n = n;
    memcpy(on_its_way.bytes, s, n);
  }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void* d, CUdeviceptr s, size_t n, CUstream t) {
  LEGACY(t);
  OR_FAIL(NO, "%zu,%llx", n, (u64)t);
  arrive(t);
  memcpy(d, (void*)s, n);
  return CUDA_SUCCESS;
}
static int farFrom(CUdeviceptr at);
// FAKECUDA_CORRUPT: what goes to another device's memory arrives changed, as behind an IOMMU.
CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) {
  OR_FAIL(NO, "%zu,%llx", n, (u64)t);
  memcpy((void*)d, (void*)s, n);
  if (getenv("FAKECUDA_CORRUPT") && farFrom(d)) ((char*)d)[n - 1] ^= 1;
  return CUDA_SUCCESS;
}
static void keep(CUstream t, u64 at, u64 value, int wide, int waits, size_t copied);
CUresult cuMemcpyAsync(CUdeviceptr d, CUdeviceptr s, size_t n, CUstream t) {
  OR_FAIL(NO, "%zu,%llx", n, (u64)t);
  launched_into(t);
  if (n) keep(t, d, s, 0, 0, n);
  return CUDA_SUCCESS;
}
// The attribute must be for all copies: its index is that of the first.
static CUresult batch(const char* name, CUdeviceptr* d, CUdeviceptr* s, size_t* n, size_t count,
                      CUmemcpyAttributes* a, size_t* first, size_t attributes, CUstream t) {
  OR_FAIL(0, name, "%zu,%zu,%d,%u,%zu,%zu,%llx", count, count ? n[count - 1] : 0, a->srcAccessOrder,
          a->flags, first[0], attributes, (u64)t);
  if (!t || capturing || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) memcpy((void*)d[i], (void*)s[i], n[i]);
  return CUDA_SUCCESS;
}
#undef cuMemcpyBatchAsync
CUresult cuMemcpyBatchAsync(CUdeviceptr* d, CUdeviceptr* s, size_t* n, size_t count,
                            CUmemcpyAttributes* a, size_t* first, size_t attributes, size_t* failed,
                            CUstream t) {
  *failed = ~0ull;
  return batch(__func__, d, s, n, count, a, first, attributes, t);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* d, CUdeviceptr* s, size_t* n, size_t count,
                               CUmemcpyAttributes* a, size_t* first, size_t attributes, CUstream t) {
  return batch(__func__, d, s, n, count, a, first, attributes, t);
}
