package org.nccl4j.device.cuda.nvml;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.NvmlFunctions;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.support.DaemonThread;

/**
 * The only caller of NVIDIA's management library ({@code libnvidia-ml.so.1}): which GPUs a machine
 * has, how NVLinks and C2C links connect them, and which NVLink fabric they are part of. A machine
 * without the library is an answer, with its reason. A link of which the library knows too little
 * is not used, as in NCCL. Any thread may ask.
 */
public final class Nvml {
  private static final int P2P_SUPPORTED = 0; // NVML_NVLINK_CAP_P2P_SUPPORTED
  private static final int ENABLED = 1; // NVML_FEATURE_ENABLED
  private static final int READ = 0; // NVML_P2P_CAPS_INDEX_READ
  private static final int WRITE = 1; // NVML_P2P_CAPS_INDEX_WRITE
  private static final int LINK_STATE = 165; // NVML_FI_DEV_NVLINK_GET_STATE
  private static final int C2C_COUNT = 170; // NVML_FI_DEV_C2C_LINK_COUNT
  private static final int C2C_STATUS = 171; // NVML_FI_DEV_C2C_LINK_GET_STATUS
  private static final int C2C_MBPS = 172; // NVML_FI_DEV_C2C_LINK_GET_MAX_BW
  private static final int MAX_C2C_LINKS = 64;
  private static final int HOPPER = 90;

  private static final int PCI_INFO_BYTES = 128; // nvmlPciInfo_t and room
  private static final int BUS_ID_BYTES = 16; // nvmlPciInfo_t.busIdLegacy, its first field
  private static final int FIELD_BYTES = 40; // nvmlFieldValue_t
  private static final int FIELD_SCOPE = 4;
  private static final int FIELD_RESULT = 28;
  private static final int FIELD_VALUE = 32;

  private static final int FABRIC_BYTES = 36; // nvmlGpuFabricInfo_v2_t
  private static final int FABRIC_VERSION = 2 << 24 | FABRIC_BYTES;
  private static final int FABRIC_UUID = 4;
  private static final int FABRIC_STATUS = 20;
  private static final int FABRIC_CLIQUE = 24;
  private static final int FABRIC_STATE = 28; // a byte
  private static final int PLATFORM_BYTES = 44; // nvmlPlatformInfo_v2_t
  private static final int PLATFORM_VERSION = 2 << 24 | PLATFORM_BYTES;
  private static final int PLATFORM_CHASSIS = 20;
  private static final int CHASSIS_BYTES = 16;

  private static Nvml found;

  private final NvmlFunctions nvml;
  private final Optional<String> absence;
  private final List<NvmlGpu> gpus = new ArrayList<>();
  private final List<Long> handles = new ArrayList<>();
  private final Map<Integer, Boolean> peers = new ConcurrentHashMap<>(); // asking takes long

  private Nvml(NvmlFunctions nvml, Optional<String> absence) {
    this.nvml = nvml;
    this.absence = absence;
  }

  /** Looks for the library and asks it; the same answer at every call. */
  public static synchronized Nvml probe() {
    if (found == null) {
      found = look();
    }
    return found;
  }

  /**
   * Begins to ask what communicators of some GPUs will want to know, on a thread of its own: the
   * library takes its time to start, and about a millisecond for each question.
   *
   * @param busIds the GPUs' PCI addresses
   * @param first what is asked before
   */
  public static void askAhead(List<String> busIds, Runnable first) {
    Runnable asking =
        () -> {
          Nvml nvml = probe();
          first.run();
          for (String one : busIds) {
            for (String other : busIds) {
              nvml.gpu(one)
                  .ifPresent(
                      gpu ->
                          nvml.gpu(other)
                              .ifPresent(to -> nvml.allowsPeers(gpu.index(), to.index())));
            }
          }
        };
    DaemonThread.of(asking, "nccl4j-nvml").start();
  }

  private static Nvml look() {
    NvmlFunctions nvml;
    try {
      nvml = NativeLibrary.load(NvmlFunctions.class, NativeNames.NVML);
    } catch (SystemErrorException e) {
      return new Nvml(null, Optional.of(e.problem()));
    }
    int result = nvml.nvmlInit_v2();
    if (result != 0) {
      return new Nvml(
          null,
          Optional.of(
              "%s does not start: %s (%d)"
                  .formatted(NvmlFunctions.LIBRARY, nvml.nvmlErrorString(result), result)));
    }
    Nvml made = new Nvml(nvml, Optional.empty());
    made.ask();
    return made;
  }

  /** Why there is nothing to know; empty where the library answers. */
  public Optional<String> absence() {
    return absence;
  }

  /** All GPUs of the machine by index; empty where there is no library. */
  public List<NvmlGpu> gpus() {
    return List.copyOf(gpus);
  }

  /** The GPU at a PCI address as in /sys. */
  public Optional<NvmlGpu> gpu(String busId) {
    return gpus.stream().filter(gpu -> gpu.busId().equals(busId)).findFirst();
  }

  /**
   * True if NVLinks connect two GPUs, given by PCI addresses as in /sys, directly or through a
   * switch. Empty if the library does not show both GPUs; a container may show only one.
   */
  public Optional<Boolean> hasNvlink(String busId, String other) {
    Optional<NvmlGpu> to = gpu(other);
    return gpu(busId).filter(gpu -> to.isPresent()).map(gpu -> isLinked(gpu, to.get()));
  }

  private boolean isLinked(NvmlGpu one, NvmlGpu other) {
    return one.nvLinks().containsKey(other.busId())
        || one.nvLinks().keySet().stream()
            .anyMatch(end -> gpu(end).isEmpty() && other.nvLinks().containsKey(end));
  }

  /** True if two GPUs, by index, may read and write each other's memory; yes where not known. */
  public boolean allowsPeers(int index, int other) {
    if (index == other || index >= handles.size() || other >= handles.size()) {
      return true;
    }
    return peers.computeIfAbsent(
        index * handles.size() + other, pair -> askWhetherPeers(index, other));
  }

  private boolean askWhetherPeers(int index, int other) {
    Offheap out = new Offheap(8);
    for (int capability : new int[] {READ, WRITE}) {
      int result =
          nvml.nvmlDeviceGetP2PStatus(
              handles.get(index), handles.get(other), capability, out.address());
      if (result == 0 && out.getInt(0) != 0) {
        return false;
      }
    }
    return true;
  }

  /** Returns the current state of the NVLink fabric of the GPU at a PCI address as in /sys. */
  public NvmlFabric fabric(String busId) {
    Optional<NvmlGpu> gpu = gpu(busId);
    if (gpu.isEmpty()) {
      return NvmlFabric.unknown(absence.orElse(NvmlFunctions.LIBRARY + " has no GPU at " + busId));
    }
    Offheap info = new Offheap(FABRIC_BYTES).putInt(0, FABRIC_VERSION);
    int result;
    try {
      result = nvml.nvmlDeviceGetGpuFabricInfoV(handles.get(gpu.get().index()), info.address());
    } catch (UnsatisfiedLinkError e) {
      return NvmlFabric.unknown("the driver is too old to know of it");
    }
    if (result != 0) {
      return NvmlFabric.unknown(
          "%s does not say: %s (%d)"
              .formatted(NvmlFunctions.LIBRARY, nvml.nvmlErrorString(result), result));
    }
    byte[] uuid = new byte[NvmlFabric.UUID_BYTES];
    info.bytes().get(FABRIC_UUID, uuid);
    return new NvmlFabric(
        "",
        info.bytes().get(FABRIC_STATE),
        info.getInt(FABRIC_STATUS),
        HexFormat.of().formatHex(uuid),
        info.getInt(FABRIC_CLIQUE));
  }

  /** The serial number of the chassis that the GPU at a PCI address is in, where that is known. */
  public Optional<String> chassis(String busId) {
    Offheap info = new Offheap(PLATFORM_BYTES).putInt(0, PLATFORM_VERSION);
    try {
      if (gpu(busId).isPresent()
          && nvml.nvmlDeviceGetPlatformInfo(handles.get(gpu(busId).get().index()), info.address())
              == 0) {
        return text(info, PLATFORM_CHASSIS, CHASSIS_BYTES);
      }
    } catch (UnsatisfiedLinkError e) {
      return Optional.empty(); // of an older driver
    }
    return Optional.empty();
  }

  private void ask() {
    Offheap out = new Offheap(8);
    int count = nvml.nvmlDeviceGetCount_v2(out.address()) == 0 ? out.getInt(0) : 0;
    for (int index = 0; index < count; index++) {
      if (nvml.nvmlDeviceGetHandleByIndex_v2(index, out.address()) == 0) {
        long gpu = out.getLong(0);
        handles.add(gpu);
        gpus.add(gpu(gpus.size(), gpu));
      }
    }
  }

  private NvmlGpu gpu(int index, long gpu) {
    Offheap info = new Offheap(PCI_INFO_BYTES);
    String busId =
        nvml.nvmlDeviceGetPciInfo_v3(gpu, info.address()) == 0
            ? busId(info).orElse(NvmlGpu.UNSEEN)
            : NvmlGpu.UNSEEN;
    Offheap major = new Offheap(8);
    Offheap minor = new Offheap(8);
    int result = nvml.nvmlDeviceGetCudaComputeCapability(gpu, major.address(), minor.address());
    int capability = result == 0 ? 10 * major.getInt(0) + minor.getInt(0) : 0;
    int[] c2c = capability >= HOPPER ? c2cLinks(gpu) : new int[2];
    return new NvmlGpu(index, busId, capability, nvLinks(gpu, capability), c2c[0], c2c[1]);
  }

  /** Links that NCCL asks for, by generation. */
  public static int mostLinks(int capability) {
    if (capability < 60) {
      return 0;
    }
    return capability < 70 ? 4 : capability < 80 ? 6 : capability < HOPPER ? 12 : 18;
  }

  private Map<String, Integer> nvLinks(long gpu, int capability) {
    Map<String, Integer> links = new TreeMap<>();
    Offheap out = new Offheap(8);
    Offheap info = new Offheap(PCI_INFO_BYTES);
    for (int link = 0; link < mostLinks(capability); link++) {
      boolean usable =
          nvml.nvmlDeviceGetNvLinkCapability(gpu, link, P2P_SUPPORTED, out.address()) == 0
              && out.getInt(0) != 0
              && isActive(gpu, link, capability);
      if (usable && nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu, link, info.address()) == 0) {
        links.merge(busId(info).orElse(NvmlGpu.UNSEEN), 1, Integer::sum);
      }
    }
    return links;
  }

  private boolean isActive(long gpu, int link, int capability) {
    if (capability >= HOPPER) {
      return field(gpu, LINK_STATE, link).orElse(0) == ENABLED;
    }
    Offheap out = new Offheap(8);
    return nvml.nvmlDeviceGetNvLinkState(gpu, link, out.address()) == 0 && out.getInt(0) == ENABLED;
  }

  /** MB/s of a link, and how many are active. */
  private int[] c2cLinks(long gpu) {
    int links = Math.min(MAX_C2C_LINKS, field(gpu, C2C_COUNT, 0).orElse(0));
    int mbps = 0;
    int active = 0;
    for (int link = 0; link < links; link++) {
      Optional<Integer> speed = field(gpu, C2C_MBPS, link);
      if (field(gpu, C2C_STATUS, link).orElse(0) == 1 && speed.isPresent()) {
        mbps = speed.get();
        active++;
      }
    }
    return new int[] {mbps, active};
  }

  private Optional<Integer> field(long gpu, int field, int scope) {
    Offheap value = new Offheap(FIELD_BYTES).putInt(0, field).putInt(FIELD_SCOPE, scope);
    boolean known =
        nvml.nvmlDeviceGetFieldValues(gpu, 1, value.address()) == 0
            && value.getInt(FIELD_RESULT) == 0;
    return known ? Optional.of(value.getInt(FIELD_VALUE)) : Optional.empty();
  }

  /** The address as /sys writes it; empty if it is blank or not text, as in virtual machines. */
  private static Optional<String> busId(Offheap info) {
    return text(info, 0, BUS_ID_BYTES).map(text -> text.toLowerCase(Locale.ROOT));
  }

  /** Returns the text of a field, or empty if it is blank or not text. */
  private static Optional<String> text(Offheap info, int offset, int size) {
    byte[] bytes = new byte[size];
    info.bytes().get(offset, bytes);
    int length = 0;
    while (length < bytes.length && bytes[length] != 0) {
      if (bytes[length] <= ' ' || bytes[length] >= 0x7f) {
        return Optional.empty();
      }
      length++;
    }
    String text = new String(bytes, 0, length, StandardCharsets.US_ASCII);
    return text.isEmpty() ? Optional.empty() : Optional.of(text);
  }
}
