package org.nccl4j.api;

import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * Delivers tokens by kernels that store into the other ranks' windows. A call is one kernel in its
 * stream, and waits for nothing.
 */
final class ExpertDirect implements ExpertDelivery {
  private final CommunicatorState state;
  private final long rowBytes;
  private final Launcher launcher;
  private final Memory memory;
  private final ExpertKernels.Plans plans;

  private ExpertDirect(
      CommunicatorState state, ExpertSizes sizes, Memory memory, ExpertKernels.Plans plans) {
    this.state = state;
    this.rowBytes = sizes.rowBytes();
    this.launcher = state.launcher();
    this.memory = memory;
    this.plans = plans;
  }

  /**
   * The most blocks of this rank's kernels, which are loaded then; 0 if it has none, or if a rank's
   * windows are out of reach.
   */
  static int mostBlocks(CommunicatorState state, ExpertSizes sizes) {
    return state.windows().team().size() == sizes.nRanks()
        ? state.kernels().expertKernels().map(kernels -> kernels.mostBlocks(sizes)).orElse(0)
        : 0;
  }

  /**
   * Makes the window together with all other ranks.
   *
   * @param blocks of each kernel, the same on all ranks
   * @throws NcclException on all ranks, if one of them lacks memory or cannot map another's
   */
  static ExpertDirect create(
      CommunicatorState state, ExpertSizes sizes, int blocks, ExpertBuffers buffers) {
    ExpertKernels kernels = state.kernels().expertKernels().orElseThrow();
    Memory memory = Memory.make(state, kernels, sizes, blocks);
    Launcher launcher = state.launcher();
    try {
      launcher.enter(); // as its owner
      try {
        return new ExpertDirect(
            state, sizes, memory, kernels.prepare(sizes, blocks, memory.with(buffers)));
      } finally {
        launcher.leave();
      }
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** The window that the ranks write into, and this rank's own memory. */
  private record Memory(
      WindowRegistry windows, RegisteredWindow window, DeviceMemory written, DeviceMemory own) {
    static Memory make(
        CommunicatorState state, ExpertKernels kernels, ExpertSizes sizes, int blocks) {
      DeviceMemory written = null;
      DeviceMemory own = null;
      NcclException lack = null;
      try {
        written = state.device().memAlloc(kernels.windowBytes(sizes, blocks));
        written.fill((byte) 0);
        own = state.device().allocate(kernels.ownBytes(sizes, blocks));
        own.fill((byte) 0);
      } catch (NcclException e) {
        lack = e;
      }
      WindowRegistry windows = state.windows();
      try {
        return new Memory(windows, windows.registerForKernels(written, lack), written, own);
      } catch (RuntimeException e) {
        if (written != null) {
          written.close();
        }
        if (own != null) {
          own.close();
        }
        throw e;
      }
    }

    ExpertKernels.Memory with(ExpertBuffers buffers) {
      return new ExpertKernels.Memory(
          window.view(),
          own,
          buffers.received(),
          buffers.scales(),
          buffers.counts(),
          buffers.offsets());
    }

    void close() {
      windows.releaseForKernels(window, written);
      own.close();
    }
  }

  @Override
  public boolean isCapturable() {
    return true;
  }

  @Override
  public void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      DeviceStream stream) {
    Leases.begin(experts, weights); // the launch itself does not name them
    try {
      launcher.enter();
      try {
        launch(plans.dispatch(experts, weights, count), tokens, null, stream, count);
      } finally {
        launcher.leave();
      }
    } finally {
      Leases.end(experts, weights);
    }
  }

  @Override
  public void combine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    launcher.enter();
    try {
      long rows = outputs.size() / rowBytes;
      launch(plans.combine(rows), outputs, result, stream, rows);
    } finally {
      launcher.leave();
    }
  }

  private void launch(
      KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream, long count) {
    launcher.launchOther(plan, send, recv, stream, Launcher.UNNAMED, count);
  }

  /** A closed communicator has freed the window and the plans. */
  @Override
  public void close() {
    if (state.isClosed()) {
      memory.own.close();
      return;
    }
    try {
      launcher.enter();
      try {
        plans.discard();
      } finally {
        launcher.leave();
      }
    } catch (NcclException e) {
      // A failed communicator frees its plans when it is closed.
    }
    memory.close();
  }
}
