package org.nccl4j.device.cuda;

import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

/**
 * Operations captured from a stream. Its launches run one after the other; between its launches and
 * eager operations of the same communicator the user's streams must keep an order.
 */
public final class CudaGraph implements AutoCloseable {
  private final CudaDevice device;
  private final CUgraph graph;
  private final CUgraphExec executable;
  private volatile boolean closed;

  CudaGraph(CudaDevice device, CUgraph graph) {
    this.device = device;
    this.graph = graph;
    try {
      this.executable = device.context().get(() -> JCudaLibrary.instantiate(graph, device));
    } catch (RuntimeException e) {
      JCudaLibrary.destroyGraph(null, graph, device);
      throw e;
    }
  }

  /**
   * Puts all of it into a stream of the same device.
   *
   * @throws InvalidArgumentException for a stream of another device
   * @throws InvalidUsageException after close, and for a closed stream
   */
  public void launch(CudaStream stream) {
    if (Given.notNull(stream, "stream").device() != device) {
      throw new InvalidArgumentException(
          ErrorId.STREAM,
          "a graph of %s is launched into a stream of %s".formatted(device, stream.device()),
          "launch it into a stream of the device that it was captured on");
    }
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED, "a graph is launched after close", "close a graph after its last launch");
    }
    JCudaLibrary.launchGraph(executable, stream.open(), device);
    stream.addGraph();
  }

  /** Frees it. Calling it again does nothing. */
  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      JCudaLibrary.destroyGraph(executable, graph, device);
    }
  }
}
