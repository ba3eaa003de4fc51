// Physical memory is a memfd, so that it can be mapped many times and in other processes.
typedef struct {
  int fd, references, mappings;
  size_t size, taken;
  CUmemAllocationProp prop;
} Physical;
typedef struct {
  CUdeviceptr at;
  size_t size;
  Physical* memory;
} Mapping;
static Mapping mappings[4096];
static pthread_mutex_t maps = PTHREAD_MUTEX_INITIALIZER;  // of who changes them; the memory is stored last
static Physical* physical(CUmemGenericAllocationHandle h) { return (Physical*)h; }
static void drop(Physical* p) {
  if (p->references == 0 && p->mappings == 0) {
    close(p->fd);
    give(p->taken);
    free(p);
  }
}
static CUmemGenericAllocationHandle physicalOf(int fd, size_t size, const CUmemAllocationProp* prop) {
  Physical* p = calloc(1, sizeof *p);
  p->fd = fd;
  p->references = 1;
  p->size = size;
  if (prop) p->prop = *prop;
  return (CUmemGenericAllocationHandle)p;
}
static Mapping* mappingAt(CUdeviceptr at) {
  for (int i = 0; i < 4096; i++)
    if (__atomic_load_n(&mappings[i].memory, __ATOMIC_ACQUIRE) && at - mappings[i].at < mappings[i].size)
      return &mappings[i];
  return NULL;
}
static int farFrom(CUdeviceptr at) {
  Mapping* m = mappingAt(at);
  return m && m->memory->prop.location.id != device_of(current);
}
// Memory of cuMemAlloc in other processes: a handle is the process and its descriptor, with a mark at
// its end.
#define HANDLE_MARK 0x6e6363346a697063ull
CUresult cuIpcGetMemHandle(CUipcMemHandle* h, CUdeviceptr p) {
  OR_FAIL(NO, "");
  for (int i = 0; i < 4096; i++)
    if (known[i].at == p && known[i].fd >= 0 && known[i].size % BLOCK == 0) {
      u64 words[8] = {getpid(), known[i].fd, known[i].size, 3, 4, 5, 6, HANDLE_MARK};
      memcpy(h, words, sizeof words);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
static struct {
  CUdeviceptr at;
  size_t size;
  int fd;
} opened[64];
CUresult cuIpcOpenMemHandle(CUdeviceptr* p, CUipcMemHandle h, unsigned f) {
  OR_FAIL(NEW, "%u", f);
  u64 words[8];
  memcpy(words, &h, sizeof words);
  if (words[7] != HANDLE_MARK || words[3] != 3 || words[6] != 6) return CUDA_ERROR_INVALID_HANDLE;
  char name[64];
  snprintf(name, sizeof name, "/proc/%llu/fd/%llu", words[0], words[1]);
  int fd = open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  void* at = mmap(NULL, words[2], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  flock(fd, LOCK_SH);  // so that its owner can see that it is open
  *p = (CUdeviceptr)at;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64; i++)
    if (!opened[i].at) {
      opened[i].at = *p;
      opened[i].size = words[2];
      opened[i].fd = fd;
      break;
    }
  pthread_mutex_unlock(&lock);
  return CUDA_SUCCESS;
}
CUresult cuIpcCloseMemHandle(CUdeviceptr p) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64 && !found; i++)
    if (opened[i].at == p) {
      munmap((void*)p, opened[i].size);
      close(opened[i].fd);
      opened[i].at = 0;
      found = 1;
    }
  pthread_mutex_unlock(&lock);
  if (found) return call(GONE, "");
  call(NO, "misuse: what was not opened is closed");
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuCtxEnablePeerAccess(CUcontext c, unsigned f) { return call(NO, "%llx,%u", (u64)c, f); }
#define PINNED 65536
static u64 pinned[PINNED];
static size_t pinned_bytes[PINNED];
// Puts a value in the place of another, the first that is found; that place from 1, or 0 for none.
static int exchange(u64* table, u64 old, u64 with) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < PINNED && !found; i++)
    if (table[i] == old) {
      table[i] = with;
      found = i + 1;
    }
  pthread_mutex_unlock(&lock);
  return found;
}
CUresult cuMemHostRegister(void* p, size_t n, unsigned f) {
  OR_FAIL(NEW, "%zu,%u", n, f);
  int place = exchange(pinned, 0, (u64)p);
  if (!place) return CUDA_ERROR_OUT_OF_MEMORY;
  pinned_bytes[place - 1] = n;
  return CUDA_SUCCESS;
}
CUresult cuMemHostUnregister(void* p) {
  if (exchange(pinned, (u64)p, 0)) return call(GONE, "");
  call(NO, "misuse: what was not pinned is unpinned");
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* h, size_t n, const CUmemAllocationProp* p, u64 f) {
  OR_FAIL(NEW, "%zu,%d,%d,%d,%d,%d,%llu", n, p->type, p->requestedHandleTypes, p->location.type,
          p->location.id, p->allocFlags.usage, f);
  if ((p->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) && fabric != FABRIC) {
    call(GONE, "refused");
    return CUDA_ERROR_NOT_PERMITTED;
  }
  size_t taken = p->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? n : 0;
  if (!take(taken)) {
    call(GONE, "no memory");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  char name[32];  // says to who imports it where it is
  snprintf(name, sizeof name, "fake-%d-%d", p->location.type, p->location.id);
  int fd = memfd_create(name, MFD_CLOEXEC);
  if (ftruncate(fd, n)) return CUDA_ERROR_OUT_OF_MEMORY;
  *h = physicalOf(fd, n, p);
  physical(*h)->taken = taken;
  return CUDA_SUCCESS;
}
// The driver is not safe from threads that release at the same time.
static int releasing;
CUresult cuMemRelease(CUmemGenericAllocationHandle h) {
  if (__sync_fetch_and_add(&releasing, 1)) call(NO, "misuse: by two threads at once");
  usleep(20);
  pthread_mutex_lock(&maps);
  physical(h)->references--;
  drop(physical(h));
  pthread_mutex_unlock(&maps);
  __sync_fetch_and_sub(&releasing, 1);
  return call(GONE, "");
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* h, void* at) {
  Mapping* m = mappingAt((CUdeviceptr)at);
  if (!m) return call(NO, "none") ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_VALUE;
  OR_FAIL(NEW, "");
  pthread_mutex_lock(&maps);
  m->memory->references++;
  pthread_mutex_unlock(&maps);
  *h = (CUmemGenericAllocationHandle)m->memory;
  return CUDA_SUCCESS;
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* p,
                                                CUmemGenericAllocationHandle h) {
  *p = physical(h)->prop;
  return call(NO, "");
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr at) {
  OR_FAIL(NO, "%d", attribute);
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
      attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER) {  // devices see pinned memory where it is
    *(u64*)data = at;
    return CUDA_SUCCESS;
  }
  int asked = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  Mapping* m = mappingAt(at);
  if (m) {
    *(int*)data = asked ? CU_MEMORYTYPE_DEVICE : m->memory->prop.location.id;
    return CUDA_SUCCESS;
  }
  for (int i = 0; i < 4096; i++)
    if (known[i].at && at - known[i].at < known[i].size) {
      *(int*)data = asked ? known[i].type : known[i].device;
      return CUDA_SUCCESS;
    }
  for (int i = 0; i < PINNED; i++)
    if (pinned[i] && at - pinned[i] < pinned_bytes[i]) {
      *(int*)data = asked ? CU_MEMORYTYPE_HOST : 0;
      return CUDA_SUCCESS;
    }
  for (int i = 0; i < 64; i++)
    if (opened[i].at && at - opened[i].at < opened[i].size) {
      *(int*)data = asked ? CU_MEMORYTYPE_DEVICE : 0;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size, CUdeviceptr at) {
  Mapping* m = mappingAt(at);
  OR_FAIL(NO, "");
  *base = m->at;
  *size = m->size;
  return CUDA_SUCCESS;
}
// Addresses that were given back come again first, so that who remembers them is found out.
static struct {
  CUdeviceptr at;
  size_t size;
} returned[64];
CUresult cuMemAddressReserve(CUdeviceptr* p, size_t n, size_t align, CUdeviceptr at, u64 f) {
  OR_FAIL(NEW, "%zu,%zu,%llu,%llu", n, align, at, f);
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64; i++)
    if (returned[i].at && returned[i].size == n && returned[i].at % align == 0) {
      *p = returned[i].at;
      returned[i].at = 0;
      pthread_mutex_unlock(&lock);
      return CUDA_SUCCESS;
    }
  pthread_mutex_unlock(&lock);
  char* more = mmap(NULL, n + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char* begin = (char*)(((u64)more + align - 1) / align * align);
  if (begin > more) munmap(more, begin - more);
  munmap(begin + n, more + align - begin);
  *p = (CUdeviceptr)begin;
  return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr p, size_t n) {
  int kept = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 64 && !kept; i++)
    if (!returned[i].at) {
      returned[i].at = p;
      returned[i].size = n;
      kept = 1;
    }
  pthread_mutex_unlock(&lock);
  if (!kept) munmap((void*)p, n);
  return call(GONE, "%zu", n);
}
CUresult cuMemMap(CUdeviceptr p, size_t n, size_t o, CUmemGenericAllocationHandle h, u64 f) {
  OR_FAIL(NEW, "%zu,%zu,%llu", n, o, f);
  if (mmap((void*)p, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical(h)->fd, o) ==
      MAP_FAILED)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  pthread_mutex_lock(&maps);
  for (int i = 0; i < 4096 && result; i++) {
    if (!mappings[i].memory) {
      mappings[i].at = p;
      mappings[i].size = n;
      __atomic_store_n(&mappings[i].memory, physical(h), __ATOMIC_RELEASE);
      physical(h)->mappings++;
      result = CUDA_SUCCESS;
    }
  }
  pthread_mutex_unlock(&maps);
  return result;
}
CUresult cuMemUnmap(CUdeviceptr p, size_t n) {
  unkeep(p, n);
  pthread_mutex_lock(&maps);
  Mapping* m = mappingAt(p);
  if (!m || m->at != p || m->size != n) {
    pthread_mutex_unlock(&maps);
    return CUDA_ERROR_INVALID_VALUE;
  }
  mmap((void*)p, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  m->memory->mappings--;
  drop(m->memory);
  m->memory = NULL;
  pthread_mutex_unlock(&maps);
  return call(GONE, "%zu", n);
}
