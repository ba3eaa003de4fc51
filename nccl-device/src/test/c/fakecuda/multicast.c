// Multicast objects, found again by the inode of the file behind their handles.
typedef struct {
  ino_t inode;
  CUmulticastObjectProp prop;
  unsigned added, bound;  // a bit for each device
} Team;
static Team teams[256];
static int n_teams;
#define BEST_GRANULE (granule > 4 << 20 ? granule : 4 << 20)

static Team* teamOf(Physical* p) {
  struct stat s;
  if (fstat(p->fd, &s)) return NULL;
  for (int i = 0; i < n_teams; i++)
    if (teams[i].inode == s.st_ino) return &teams[i];
  return NULL;
}
// Records a misuse: a driver would answer with an error, or worse.
static CUresult misuse(const char* what) {
  call(NO, "misuse: %s", what);
  return CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMulticastGetGranularity(size_t* g, const CUmulticastObjectProp* p,
                                   CUmulticastGranularity_flags o) {
  *g = o == CU_MULTICAST_GRANULARITY_MINIMUM ? granule : BEST_GRANULE;
  return call(NO, "%u,%zu,%llu,%llu,%d", p->numDevices, p->size, p->handleTypes, p->flags, o);
}
CUresult cuMulticastCreate(CUmemGenericAllocationHandle* h, const CUmulticastObjectProp* p) {
  OR_FAIL(NEW, "%u,%zu,%llu,%llu", p->numDevices, p->size, p->handleTypes, p->flags);
  int byFabric = p->handleTypes == CU_MEM_HANDLE_TYPE_FABRIC;
  if (p->numDevices < 2 || p->size % granule || p->flags ||
      (p->handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !byFabric))
    return misuse("properties");
  if (byFabric && fabric != FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
  int fd = memfd_create("fake", MFD_CLOEXEC);
  if (ftruncate(fd, p->size)) return CUDA_ERROR_OUT_OF_MEMORY;
  struct stat s;
  fstat(fd, &s);
  int place = __atomic_fetch_add(&n_teams, 1, __ATOMIC_SEQ_CST);  // several machines of a process
  if (place >= 256) abort();
  teams[place] = (Team){s.st_ino, *p, 0, 0};
  CUmemAllocationProp prop = {.requestedHandleTypes = p->handleTypes};
  *h = physicalOf(fd, p->size, &prop);
  return CUDA_SUCCESS;
}
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle h, CUdevice d) {
  OR_FAIL(NO, "%d", d);
  Team* team = teamOf(physical(h));
  if (!team) return misuse("no multicast object");
  if (team->added >> d & 1) return misuse("a device is added twice");
  __atomic_fetch_or(&team->added, 1u << d, __ATOMIC_SEQ_CST);
  return CUDA_SUCCESS;
}
// From is an offset in the memory, or the address at which it is bound.
static CUresult bindTo(CUmemGenericAllocationHandle h, size_t at, Physical* memory, u64 from,
                       size_t n) {
  Team* team = teamOf(physical(h));
  unsigned d = memory->prop.location.id;
  if (!team) return misuse("no multicast object");
  if (__builtin_popcount(team->added) != (int)team->prop.numDevices)
    return misuse("memory is bound before all devices are added");
  if (!(team->added >> d & 1)) return misuse("memory of a device that was not added");
  if (team->bound >> d & 1) return misuse("memory is bound twice");
  if ((at | from | n) % granule || n > team->prop.size || n > memory->size) return misuse("size");
  __atomic_fetch_or(&team->bound, 1u << d, __ATOMIC_SEQ_CST);
  return call(1, "bound", "%u", d);
}
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle h, size_t at,
                            CUmemGenericAllocationHandle memory, size_t from, size_t n, u64 f) {
  OR_FAIL(NO, "%zu,%zu,%zu,%llu", at, from, n, f);
  return bindTo(h, at, physical(memory), from, n);
}
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle h, size_t at, CUdeviceptr from, size_t n,
                             u64 f) {
  OR_FAIL(NO, "%zu,%zu,%llu", at, n, f);
  Mapping* m = mappingAt(from);
  return m && f == 0 ? bindTo(h, at, m->memory, from, n) : misuse("an address of no memory");
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle h, CUdevice d, size_t at, size_t n) {
  OR_FAIL(NO, "%d,%zu,%zu", d, at, n);
  Team* team = teamOf(physical(h));
  if (!team || !(team->bound >> d & 1)) return misuse("what was not bound is unbound");
  __atomic_fetch_and(&team->bound, ~(1u << d), __ATOMIC_SEQ_CST);
  return call(-1, "unbound", "%d", d);
}
CUresult cuMemSetAccess(CUdeviceptr p, size_t n, const CUmemAccessDesc* d, size_t c) {
  Mapping* m = mappingAt(p);
  for (size_t i = 0; m && i < c; i++)
    if (d[i].location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
        m->memory->prop.location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
      return misuse("the processor is let into a device's memory");
  for (size_t i = 0; m && getenv("FAKECUDA_NO_PEERS") && i < c; i++)
    if (d[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        m->memory->prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        d[i].location.id != m->memory->prop.location.id)
      return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  Team* team = m ? teamOf(m->memory) : NULL;
  if (team && __builtin_popcount(team->bound) != (int)team->prop.numDevices)
    return misuse("access to a multicast object waits for ever for members");
  return call(NO, "%zu,%d,%d,%d,%zu", n, d->location.type, d->location.id, d->flags, c);
}
// A dma-buf is the file of the memory, at the position where the range begins in it: whoever is given
// it maps the same bytes, also when others are mapped at their addresses by then (fakeverbs).
static int dmaBufOf(int fd, size_t begin) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  int own = open(name, O_RDWR | O_CLOEXEC);
  if (own >= 0) lseek(own, begin, SEEK_SET);
  return own;
}
CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr p, size_t n, CUmemRangeHandleType t,
                                       u64 f) {
  OR_FAIL(NO, "%zu,%d,%llu", n, t, f);
  if ((p | n) % 4096 || t != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || f)
    return misuse("a dma-buf of parts of pages");
  Mapping* m = mappingAt(p);
  int fd = -1;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096 && !m && fd < 0; i++)
    if (known[i].at && known[i].fd >= 0 && p - known[i].at < known[i].size &&
        p + n <= known[i].at + (known[i].size + 4095) / 4096 * 4096)
      fd = dmaBufOf(known[i].fd, p - known[i].at);
  pthread_mutex_unlock(&lock);
  if (fd >= 0) {
    *(int*)out = fd;
    return CUDA_SUCCESS;
  }
  if (!m || p + n > m->at + m->size) return misuse("a dma-buf of what is not mapped");
  if (m->memory->prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      !m->memory->prop.allocFlags.gpuDirectRDMACapable)
    return misuse("a dma-buf of memory that is not for network cards");
  *(int*)out = dmaBufOf(m->memory->fd, p - m->at);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* c, CUfunction f, void** params, void** extra) {
  APART(c->hStream);
  launched = load_function(f);
  launched_into(c->hStream);
  // A kernel may have fewer bytes of arguments, at the end of what can be read.
  struct iovec to = {arguments, sizeof arguments}, from = {params[0], sizeof arguments};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0 && errno != EFAULT)
    memcpy(arguments, params[0], sizeof arguments);
  all_arguments = params[0];
  char attributes[256] = "";
  for (unsigned i = 0; i < c->numAttrs; i++) {  // the value of others is an int
    const CUlaunchAttribute* a = &c->attrs[i];
    snprintf(attributes + strlen(attributes), 32, "%s%d:%d", i ? "+" : "", a->id, *(int*)&a->value);
    if (a->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      snprintf(attributes + strlen(attributes), 32, "x%ux%u", a->value.clusterDim.y,
               a->value.clusterDim.z);
      if (c->gridDimX % a->value.clusterDim.x) return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return call(NO, "%u,%u,%u,%u,%u,%u,%u,%llx,%s,%llx", c->gridDimX, c->gridDimY, c->gridDimZ,
              c->blockDimX, c->blockDimY, c->blockDimZ, c->sharedMemBytes, (u64)c->hStream, attributes,
              (u64)extra);
}
