package org.nccl4j.device.bind;

import java.util.List;
import java.util.Locale;

/** File names of the native libraries on each platform, in the order in which they are tried. */
public enum NativeNames {
  /**
   * The C library of Linux; empty: the functions that the process has in any case. Callers pass
   * Linux's numbers, so other systems have none.
   */
  LIBC(
      List.of("", "libc.so.6", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1", "libc.so"),
      List.of(),
      List.of()),
  /** The CUDA driver. */
  CUDA(List.of("libcuda.so.1", "libcuda.so"), List.of(), List.of("nvcuda.dll")),
  /** NVIDIA's management library. */
  NVML(List.of("libnvidia-ml.so.1", "libnvidia-ml.so"), List.of(), List.of("nvml.dll")),
  /**
   * NVIDIA's tools extension, for languages that do not take its header: of the toolkit of CUDA 13,
   * else the library of NVTX 2, which older toolkits have.
   */
  NVTX(
      List.of(
          "libnvtx3interop.so.1",
          "/usr/local/cuda/lib64/libnvtx3interop.so.1",
          "libnvToolsExt.so.1",
          "/usr/local/cuda/lib64/libnvToolsExt.so.1"),
      List.of(),
      List.of()),
  /** NVIDIA's compiler of CUDA C++ at run time; of an unknown version last. */
  NVRTC(List.of("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"), List.of(), List.of()),
  /** InfiniBand verbs. */
  VERBS(List.of("libibverbs.so.1", "libibverbs.so"), List.of(), List.of());

  private final List<String> linux;
  private final List<String> mac;
  private final List<String> windows;

  NativeNames(List<String> linux, List<String> mac, List<String> windows) {
    this.linux = linux;
    this.mac = mac;
    this.windows = windows;
  }

  /** The names on this platform; none where there is no such library. */
  public List<String> files() {
    return files(System.getProperty("os.name", ""));
  }

  List<String> files(String system) {
    String name = system.toLowerCase(Locale.ROOT);
    if (name.startsWith("windows")) {
      return windows;
    }
    return name.startsWith("mac") ? mac : linux;
  }
}
