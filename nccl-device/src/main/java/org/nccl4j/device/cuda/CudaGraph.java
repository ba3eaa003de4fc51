package org.nccl4j.device.cuda;

import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;

/**
 * Operations captured from a stream. Its launches run one after the other; between its launches and
 * eager operations of the same communicator the user's streams must keep an order.
 */
public final class CudaGraph implements AutoCloseable {
  private final CudaDevice device;
  private final CUgraph graph;
  private final CUgraphExec executable;
  private boolean closed;

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

  /** Puts all of it into a stream of the same device. */
  public void launch(CudaStream stream) {
    JCudaLibrary.launchGraph(executable, stream.stream(), device);
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
