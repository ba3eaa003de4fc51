package org.nccl4j.device.bind;

/**
 * The functions of NVIDIA's management library that tell how GPUs are linked; see the NVML API
 * reference for each. Devices are handles and what C calls a pointer is an address, both longs.
 * Called only by the class that owns the library.
 */
public interface NvmlFunctions {
  /** The file name of the library, which comes with the driver. */
  String LIBRARY = "libnvidia-ml.so.1";

  int nvmlInit_v2();

  String nvmlErrorString(int result);

  int nvmlDeviceGetCount_v2(long count);

  int nvmlDeviceGetHandleByIndex_v2(int index, long device);

  int nvmlDeviceGetPciInfo_v3(long device, long info);

  int nvmlDeviceGetCudaComputeCapability(long device, long major, long minor);

  int nvmlDeviceGetNvLinkCapability(long device, int link, int capability, long supported);

  int nvmlDeviceGetNvLinkState(long device, int link, long active);

  int nvmlDeviceGetNvLinkRemotePciInfo_v2(long device, int link, long info);

  int nvmlDeviceGetFieldValues(long device, int count, long values);

  /** Since driver 525. */
  int nvmlDeviceGetGpuFabricInfoV(long device, long info);

  /** Since driver 570. */
  int nvmlDeviceGetPlatformInfo(long device, long info);

  int nvmlDeviceGetP2PStatus(long device, long other, int capability, long status);
}
