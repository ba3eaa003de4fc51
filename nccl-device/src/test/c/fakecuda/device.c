// Devices and contexts.
// FAKECUDA_LACKS names an attribute by its number: no device has that.
CUresult cuDeviceGetAttribute(int* v, CUdevice_attribute a, CUdevice d) {
  const char* lacks = getenv("FAKECUDA_LACKS");
  if (a == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED) {
    *v = fabric && !(lacks && atoi(lacks) == (int)a) && lacking != (int)a;
    return call(NO, "%d,%d", a, d);
  }
  *v = (lacks && atoi(lacks) == (int)a) || lacking == (int)a ? 0
       : a == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED ? 1
       : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? capability / 10
       : a == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? capability % 10
       : a == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT   ? multiprocessors
       : a == CU_DEVICE_ATTRIBUTE_CLOCK_RATE             ? 1000000
       : a == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR ? threads_of_multiprocessor
       : a == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED    ? 1
       : a == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS ? wide_operations
                                                         : 0;
  return call(NO, "%d,%d", a, d);
}
CUresult cuDeviceGetPCIBusId(char* s, int n, CUdevice d) {
  const char* visible = getenv("FAKECUDA_VISIBLE");
  int gpu = getenv("FAKECUDA_MIG") ? 0 : visible ? atoi(visible) : d;
  snprintf(s, n, "0000:%02X:00.0", gpu + 10);  // the driver writes capitals, /sys does not
  return call(NO, "%d", d);
}
// With FAKECUDA_MIG=n each device is an instance of the first GPU; another n means others.
#undef cuDeviceGetUuid
CUresult cuDeviceGetUuid(CUuuid* u, CUdevice d) {
  memset(u, 0x40 + d, sizeof *u);
  return call(NO, "%d", d);
}
CUresult cuDeviceGetUuid_v2(CUuuid* u, CUdevice d) {
  const char* instance = getenv("FAKECUDA_MIG");
  memset(u, (instance ? 0x50 + 8 * atoi(instance) : 0x40) + d, sizeof *u);
  return call(NO, "%d", d);
}
CUresult cuDeviceCanAccessPeer(int* can, CUdevice a, CUdevice b) {
  *can = getenv("FAKECUDA_NO_PEERS") == NULL;
  return call(NO, "%d,%d", a, b);
}
CUresult cuDeviceGetP2PAttribute(int* v, CUdevice_P2PAttribute p, CUdevice a, CUdevice b) {
  *v = getenv("FAKECUDA_PCIE") == NULL;  // without atomics between GPUs, as over PCIe
  return call(NO, "%d,%d,%d", p, a, b);
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* c, CUdevice d) {
  *c = (CUcontext)(u64)(PRIMARY + d);
  return call(NO, "%d", d);
}
CUresult cuCtxGetCurrent(CUcontext* c) { *c = current; return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext c) { current = c; return call(NO, "%llx", (u64)c); }
CUresult cuMemGetInfo(size_t* f, size_t* t) { *f = 1000; *t = 2000; return call(NO, ""); }
