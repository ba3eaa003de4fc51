package org.nccl4j.api.observe;

import java.lang.System.Logger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.settings.DebugSettings;
import org.nccl4j.api.settings.Environment;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;
import org.nccl4j.device.bind.NvtxFunctions;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.operation.Operation;

/**
 * Ranges of NVTX, by which tools such as Nsight Systems show what a thread launches. A range has
 * the name of an operation and lasts while its kernels are launched. There are ranges only in
 * processes that a tool has started, which sets NVTX_INJECTION64_PATH; elsewhere no library is
 * loaded. Any thread.
 */
public final class NvtxRanges {
  private static final Logger LOG = DebugLog.of("PROFILE");

  /** Where NVTX finds the tool. */
  private static final String TOOL = "NVTX_INJECTION64_PATH";

  /** Loaded once in a process, where the first communicator asks for it. */
  private static final class OfProcess {
    static final NvtxFunctions FUNCTIONS = load();
    static final NvtxRanges RANGES = FUNCTIONS == null ? null : new NvtxRanges(FUNCTIONS);
  }

  private static NvtxFunctions load() {
    try {
      return NativeLibrary.load(NvtxFunctions.class, NativeNames.NVTX);
    } catch (NcclException e) {
      LOG.log(
          InfoLog.level(Settings.ofProcess(Map.of()), "PROFILE"),
          "operations have no NVTX ranges, although {0} is set: {1}",
          TOOL,
          e.getMessage());
      return null;
    }
  }

  private final NvtxFunctions nvtx;

  /** By the operation's number; the last is for what is no operation of the user's. */
  private final List<Offheap> names = new ArrayList<>();

  private NvtxRanges(NvtxFunctions nvtx) {
    this.nvtx = nvtx;
    for (Operation operation : Operation.values()) {
      names.add(text("nccl4j " + operation.key()));
    }
    names.add(text("nccl4j"));
  }

  private static Offheap text(String name) {
    return Offheap.of((name + '\0').getBytes(StandardCharsets.UTF_8));
  }

  /** The ranges for a communicator; null where no tool listens or the settings forbid them. */
  public static NvtxRanges of(Settings settings) {
    String tool = Environment.variables().getOrDefault(TOOL, "");
    return tool.isEmpty() || settings.get(DebugSettings.NCCL_NVTX_DISABLE)
        ? null
        : OfProcess.RANGES;
  }

  /**
   * Begins the range of a launch on this thread; to be followed by {@link #pop}.
   *
   * @param shape of the operation
   */
  @HotPath
  public void push(long shape) {
    int number = Math.min(CallShape.number(shape), names.size() - 1);
    nvtx.nvtxRangePushA(names.get(number).address());
  }

  /** Ends the range. */
  @HotPath
  public void pop() {
    nvtx.nvtxRangePop();
  }
}
