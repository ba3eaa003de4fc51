package org.nccl4j.device.bind;

/**
 * The functions of libcuda.so.1. Addresses and handles are plain longs; structures are laid out by
 * the caller. Called only by the CUDA device's driver classes. Not by JCuda: its switches are the
 * process's, and a user's {@code JCudaDriver.setExceptionsEnabled(true)} would turn a status into
 * an exception here too.
 */
public interface CudaDriver {
  /** See the CUDA driver API. */
  int cuDriverGetVersion(long version);

  /** See the CUDA driver API. */
  int cuDeviceGetCount(long count);

  /** See the CUDA driver API. */
  int cuDeviceGet(long device, int ordinal);

  /** See the CUDA driver API. */
  int cuDeviceGetName(long name, int length, int device);

  /** See the CUDA driver API. */
  int cuDeviceGetAttribute(long value, int attribute, int device);

  /** See the CUDA driver API. */
  int cuDeviceGetPCIBusId(long id, int length, int device);

  /** See the CUDA driver API: of a whole GPU. */
  int cuDeviceGetUuid(long uuid, int device);

  /**
   * Returns the device's UUID, or the instance's UUID if the device is a MIG instance (CUDA 11.4).
   */
  int cuDeviceGetUuid_v2(long uuid, int device);

  /** See the CUDA driver API. */
  int cuDeviceCanAccessPeer(long can, int device, int peer);

  /** See the CUDA driver API. */
  int cuDeviceGetP2PAttribute(long value, int attribute, int device, int peer);

  /** See the CUDA driver API. */
  int cuDevicePrimaryCtxRetain(long context, int device);

  /** See the CUDA driver API. */
  int cuCtxEnablePeerAccess(long peer, int flags);

  /** See the CUDA driver API. */
  int cuCtxGetStreamPriorityRange(long least, long greatest);

  /** See the CUDA driver API. */
  int cuMemGetInfo_v2(long free, long total);

  /** See the CUDA driver API. */
  int cuMemAlloc_v2(long address, long bytes);

  /** See the CUDA driver API. */
  int cuMemFree_v2(long address);

  /** See the CUDA driver API. */
  int cuMemHostAlloc(long address, long bytes, int flags);

  /** See the CUDA driver API. */
  int cuMemHostGetDevicePointer_v2(long device, long host, int flags);

  /** See the CUDA driver API. */
  int cuMemFreeHost(long address);

  /** See the CUDA driver API. */
  int cuMemHostRegister_v2(long address, long bytes, int flags);

  /** See the CUDA driver API. */
  int cuMemHostUnregister(long address);

  /** See the CUDA driver API. */
  int cuMemcpyHtoDAsync_v2(long target, long source, long bytes, long stream);

  /** See the CUDA driver API. */
  int cuMemcpyDtoHAsync_v2(long target, long source, long bytes, long stream);

  /** See the CUDA driver API. */
  int cuMemcpyDtoDAsync_v2(long target, long source, long bytes, long stream);

  /** See the CUDA driver API. */
  int cuMemsetD8Async(long address, int value, long bytes, long stream);

  /** See the CUDA driver API. */
  int cuStreamCreate(long stream, int flags);

  /** See the CUDA driver API. */
  int cuStreamCreateWithPriority(long stream, int flags, int priority);

  /** See the CUDA driver API. */
  int cuStreamDestroy_v2(long stream);

  /** See the CUDA driver API. */
  int cuStreamSynchronize(long stream);

  /** See the CUDA driver API. */
  int cuCtxSynchronize();

  /** See the CUDA driver API. */
  int cuCtxGetDevice(long device);

  /** See the CUDA driver API. */
  int cuStreamGetCtx(long stream, long context);

  /** See the CUDA driver API. */
  int cuStreamGetId(long stream, long id);

  /** See the CUDA driver API. */
  int cuStreamQuery(long stream);

  /** See the CUDA driver API. */
  int cuStreamWaitEvent(long stream, long event, int flags);

  /** See the CUDA driver API. */
  int cuStreamIsCapturing(long stream, long status);

  /** See the CUDA driver API. */
  int cuStreamBeginCapture_v2(long stream, int mode);

  /** See the CUDA driver API. */
  int cuStreamEndCapture(long stream, long graph);

  /** See the CUDA driver API. */
  int cuThreadExchangeStreamCaptureMode(long mode);

  /** See the CUDA driver API. */
  int cuLaunchHostFunc(long stream, long function, long argument);

  /** See the CUDA driver API. */
  int cuEventCreate(long event, int flags);

  /** See the CUDA driver API. */
  int cuEventRecord(long event, long stream);

  /** See the CUDA driver API. */
  int cuEventQuery(long event);

  /** See the CUDA driver API. */
  int cuEventSynchronize(long event);

  /** See the CUDA driver API. */
  int cuEventElapsedTime(long milliseconds, long start, long end);

  /** See the CUDA driver API. */
  int cuEventDestroy_v2(long event);

  /** See the CUDA driver API. */
  int cuModuleLoadData(long module, long image);

  /** See the CUDA driver API. */
  int cuModuleUnload(long module);

  /** See the CUDA driver API. */
  int cuModuleGetFunction(long function, long module, long name);

  /** See the CUDA driver API. */
  int cuModuleGetGlobal_v2(long address, long bytes, long module, long name);

  /** See the CUDA driver API. */
  int cuFuncGetAttribute(long value, int attribute, long function);

  /** See the CUDA driver API. */
  int cuFuncSetAttribute(long function, int attribute, int value);

  /** See the CUDA driver API. */
  int cuGraphInstantiateWithFlags(long executable, long graph, long flags);

  /** See the CUDA driver API. */
  int cuGraphLaunch(long executable, long stream);

  /** See the CUDA driver API. */
  int cuGraphExecDestroy(long executable);

  /** See the CUDA driver API. */
  int cuGraphDestroy(long graph);

  /** See the CUDA driver API. */
  int cuCtxGetCurrent(long context);

  /** See the CUDA driver API. */
  int cuCtxSetCurrent(long context);

  /** See the CUDA driver API. */
  int cuMemGetAllocationGranularity(long granularity, long prop, int option);

  /** See the CUDA driver API. */
  int cuMemCreate(long handle, long size, long prop, long flags);

  /** See the CUDA driver API. */
  int cuMemRelease(long handle);

  /** See the CUDA driver API. */
  int cuMemAddressReserve(long pointer, long size, long alignment, long address, long flags);

  /** See the CUDA driver API. */
  int cuMemAddressFree(long address, long size);

  /** See the CUDA driver API. */
  int cuMemMap(long address, long size, long offset, long handle, long flags);

  /** See the CUDA driver API. */
  int cuMemUnmap(long address, long size);

  /** See the CUDA driver API. */
  int cuMemSetAccess(long address, long size, long descriptors, long count);

  /** See the CUDA driver API. */
  int cuMemExportToShareableHandle(long shareable, long handle, int type, long flags);

  /** See the CUDA driver API. */
  int cuMemImportFromShareableHandle(long handle, long shareable, int type);

  /** See the CUDA driver API. */
  int cuMemGetHandleForAddressRange(long handle, long address, long size, int type, long flags);

  /** See the CUDA driver API. */
  int cuMemRetainAllocationHandle(long handle, long address);

  /** See the CUDA driver API. */
  int cuMemGetAllocationPropertiesFromHandle(long prop, long handle);

  /** See the CUDA driver API. */
  int cuMemGetAddressRange_v2(long base, long size, long address);

  /** See the CUDA driver API. */
  int cuPointerGetAttribute(long data, int attribute, long address);

  /** See the CUDA driver API. */
  int cuMemcpyAsync(long target, long source, long bytes, long stream);

  /** See the CUDA driver API. */
  int cuLaunchKernelEx(long config, long function, long parameters, long extra);

  /** See the CUDA driver API. */
  int cuIpcGetMemHandle(long handle, long address);

  /**
   * See the CUDA driver API. The handle is a structure of 64 bytes that C passes by value. On
   * x86-64 its words so lie on the stack, where arguments after the sixth go; the ones called none
   * fill the registers that come before, and the function never looks at them.
   */
  int cuIpcOpenMemHandle_v2(
      long address,
      long flags,
      long none1,
      long none2,
      long none3,
      long none4,
      long word0,
      long word1,
      long word2,
      long word3,
      long word4,
      long word5,
      long word6,
      long word7);

  /**
   * The same on AArch64, where C copies so large a structure and passes the copy's address.
   *
   * @param handle the address of the structure
   */
  int cuIpcOpenMemHandle_v2(long address, long handle, int flags);

  /** See the CUDA driver API. */
  int cuIpcCloseMemHandle(long address);

  /** Starts a batch of copies (CUDA 12.8). Writes the index of a failed copy to {@code failed}. */
  int cuMemcpyBatchAsync(
      long targets,
      long sources,
      long sizes,
      long count,
      long attributes,
      long attributeIndices,
      long attributeCount,
      long failed,
      long stream);

  /** Starts a batch of copies (CUDA 13.0). */
  int cuMemcpyBatchAsync_v2(
      long targets,
      long sources,
      long sizes,
      long count,
      long attributes,
      long attributeIndices,
      long attributeCount,
      long stream);

  /** See the CUDA driver API. */
  int cuStreamWaitValue32_v2(long stream, long address, int value, int flags);

  /** See the CUDA driver API. */
  int cuStreamWaitValue64_v2(long stream, long address, long value, int flags);

  /** See the CUDA driver API. */
  int cuStreamWriteValue32_v2(long stream, long address, int value, int flags);

  /** See the CUDA driver API. */
  int cuStreamWriteValue64_v2(long stream, long address, long value, int flags);
}
