package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import jcuda.driver.CUstream;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/**
 * The driver's own streams are those of the current context: calls about one are made in the
 * context of its device, whatever the thread's own.
 */
class CurrentContextTest extends AgainstFakeCuda {
  @Test
  void callsAboutAStreamAreMadeInItsDevicesContext() throws InterruptedException {
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream legacy = device.wrap(new CUstream());
        CudaStream captured = (CudaStream) device.createStream();
        DeviceEvent event = device.createEvent()) {
      captured.beginCapture();
      try (CudaGraph graph = captured.endCapture()) {
        inContext("cuStreamQuery", legacy::isIdle);
        inContext("cuStreamSynchronize", legacy::synchronize);
        inContext("cuStreamSynchronize", () -> legacy.synchronize(Duration.ofSeconds(10)));
        inContext("cuGraphLaunch", () -> graph.launch(legacy));
        inContext("cuEventRecord", () -> legacy.record(event));
        inContext("cuStreamWaitEvent", () -> legacy.await(event));
      }
    }
  }

  /** On a thread that has no current context, and has none afterwards. */
  private void inContext(String call, Runnable action) throws InterruptedException {
    fake.fakeReset();
    Throwable[] thrown = new Throwable[1];
    Thread thread = new Thread(action, "without a context");
    thread.setUncaughtExceptionHandler((of, e) -> thrown[0] = e);
    thread.start();
    thread.join();
    assertEquals(null, thrown[0]);
    List<String> calls =
        fake.fakeRecord()
            .lines()
            .filter(line -> line.startsWith(call + "(") || line.startsWith("cuCtxSetCurrent("))
            .toList();
    int at = 0;
    while (at < calls.size() && !calls.get(at).startsWith(call)) {
      at++;
    }
    assertTrue(at > 0 && at < calls.size() - 1, calls.toString());
    assertTrue(!calls.get(at - 1).contains("(0)"), calls.toString());
    assertEquals("cuCtxSetCurrent(0)", calls.get(calls.size() - 1));
  }
}
