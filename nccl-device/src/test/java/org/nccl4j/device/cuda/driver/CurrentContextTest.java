package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Method;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.FutureTask;
import jcuda.driver.CUstream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledForJreRange;
import org.junit.jupiter.api.condition.JRE;
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
  void callsAboutAStreamAreMadeInItsDevicesContext() throws Exception {
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
        inContext("cuStreamIsCapturing", legacy::isCapturing);
        inContext("cuStreamIsCapturing", () -> legacy.launchHostFunction(() -> {}));
        inContext("cuLaunchHostFunc", () -> legacy.launchHostFunction(() -> {}));
      }
    }
  }

  /** The default stream of the thread, which can be captured. */
  @Test
  void capturesAreMadeInTheStreamsDevicesContext() throws Exception {
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream ofThread = device.wrapStream(2)) {
      Runnable capture =
          () -> {
            ofThread.beginCapture();
            ofThread.endCapture().close();
          };
      inContext("cuStreamBeginCapture_v2", capture);
      inContext("cuStreamGetCaptureInfo_v2", capture);
      inContext("cuStreamEndCapture", capture);
    }
  }

  @Test
  @EnabledForJreRange(min = JRE.JAVA_21)
  void aVirtualThreadWaitsInTheStreamsDevicesContext() throws Exception {
    Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream legacy = device.wrap(new CUstream())) {
      inContext("cuStreamQuery", legacy::synchronize, task -> (Thread) start.invoke(null, task));
    }
  }

  private interface Starter {
    Thread start(Runnable task) throws ReflectiveOperationException;
  }

  private void inContext(String call, Runnable action) throws Exception {
    inContext(
        call,
        action,
        task -> {
          Thread thread = new Thread(task, "without a context");
          thread.start();
          return thread;
        });
  }

  /** On a thread that has no current context, and has none afterwards. */
  private void inContext(String call, Runnable action, Starter threads) throws Exception {
    fake.fakeReset();
    FutureTask<Void> task = new FutureTask<>(action, null);
    threads.start(task).join();
    task.get();
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
