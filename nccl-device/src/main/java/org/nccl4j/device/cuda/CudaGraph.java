package org.nccl4j.device.cuda;

import java.util.List;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.stream.CaptureRegistry;
import org.nccl4j.device.cuda.stream.ConnectionOrder;
import org.nccl4j.device.cuda.stream.GpuStream;
import org.nccl4j.device.cuda.stream.StreamUser;
import org.nccl4j.device.kernel.CapturedLaunches;

/**
 * Operations captured from a stream. Its launches run one after the other, and in the order of the
 * calls with all other operations on the same connections, whatever their streams: those of the
 * same communicators, and of communicators that share connections with them. Calls on several
 * threads are in no order but the one that the threads keep. Any thread may launch it.
 */
public final class CudaGraph implements AutoCloseable {
  private final Gpu gpu;
  private final long graph;
  private final long executable;
  private final List<ConnectionOrder> orders;
  private final List<CapturedLaunches> launches;
  private final List<StreamUser> users; // whose launches these are
  private volatile boolean closed;

  /**
   * A graph of a capture that is over. What the capture has kept is freed with the graph, or here
   * before an error.
   */
  CudaGraph(Gpu gpu, long graph, CaptureRegistry.Capture capture) {
    this.gpu = gpu;
    this.graph = graph;
    this.orders = capture.orders();
    this.launches = capture.launches();
    this.users = capture.users();
    try {
      gpu.context().run(() -> capture.freeWith(graph, gpu));
      this.executable = gpu.context().get(() -> CudaLibrary.instantiate(graph, gpu));
    } catch (RuntimeException e) {
      CudaLibrary.destroyGraph(0, graph, gpu);
      launches.forEach(CapturedLaunches::end);
      throw e;
    }
  }

  /**
   * Puts all of it into a stream of the same gpu.
   *
   * @throws InvalidArgumentException for a stream of another device
   * @throws InvalidUsageException after close, for a closed stream, and after the close or
   *     suspension of a communicator whose operations it has
   * @throws NcclException the failure of such a communicator, if it has failed; {@link
   *     CudaStream#synchronize} throws it if it fails later
   */
  public void launch(CudaStream stream) {
    if (Arguments.notNull(stream, "stream").device().gpu() != gpu) {
      throw new InvalidArgumentException(
          ErrorId.STREAM,
          "a graph of %s is launched into a stream of %s".formatted(gpu, stream.device()),
          "launch it into a stream of the device that it was captured on");
    }
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED, "a graph is launched after close", "close a graph after its last launch");
    }
    GpuStream into = stream.open();
    for (int i = 0; i < users.size(); i++) {
      users.get(i).checkReplay();
    }
    long before = gpu.context().enter();
    try {
      if (isPlain(into)) {
        put(into);
      } else {
        launch(0, into);
      }
    } finally {
      gpu.context().leave(before);
    }
  }

  /** Puts it into a stream, in the current context, and tells whom it concerns. */
  private void put(GpuStream into) {
    CudaLibrary.launchGraph(executable, into.handle(), gpu);
    into.addGraph();
    for (int i = 0; i < users.size(); i++) {
      users.get(i).replayed(into);
      launches.get(i).replayed();
    }
  }

  private synchronized boolean isPlain(GpuStream stream) {
    boolean plain = true;
    for (int i = 0; i < orders.size(); i++) {
      plain &= orders.get(i).isPlain(stream);
    }
    return plain;
  }

  /** Within all orders from one on. */
  private void launch(int from, GpuStream stream) {
    if (from == orders.size()) {
      put(stream);
      return;
    }
    ConnectionOrder order = orders.get(from);
    synchronized (order) {
      order.follow(stream);
      launch(from + 1, stream);
      order.launched(stream);
    }
  }

  /**
   * Frees it, and what it alone needs once its launches have ended. Calling it again does nothing.
   */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      CudaLibrary.destroyGraph(executable, graph, gpu);
      launches.forEach(CapturedLaunches::end);
    }
  }
}
