package org.nccl4j.it.path;

import java.util.Collections;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * A program that prints the methods that a warm all-reduce, and the wait for it, enter on its
 * rank's thread. Of many calls it prints the one that enters fewest: other threads may come between
 * some of them.
 */
public final class WarmCall implements Runnable {
  private static final int COUNT = 1024;
  private static final int WARM = 200;
  private static final int TRACED = 200;

  private final Communicator rank;
  private final boolean traces;
  private final CyclicBarrier together;

  private WarmCall(Communicator rank, boolean traces, CyclicBarrier together) {
    this.rank = rank;
    this.traces = traces;
    this.together = together;
  }

  /** The argument: host or cuda. */
  public static void main(String[] arguments) throws Exception {
    TracingLoader loader = new TracingLoader(WarmCall.class.getClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    loader
        .loadClass(WarmCall.class.getName())
        .getMethod("traced", boolean.class)
        .invoke(null, arguments[0].equals("cuda"));
  }

  /** Runs in the traced copy of this class. */
  public static void traced(boolean cuda) throws Exception {
    List<Device> devices =
        cuda ? List.copyOf(Devices.cuda().list()) : Collections.nCopies(2, Devices.host());
    List<Communicator> ranks = Communicator.initAll(devices);
    CyclicBarrier together = new CyclicBarrier(cuda ? 1 : 2);
    if (cuda) {
      new WarmCall(ranks.get(0), true, together).run();
    } else {
      Thread other = new Thread(new WarmCall(ranks.get(1), false, together));
      other.setDaemon(true);
      other.start();
      new WarmCall(ranks.get(0), true, together).run();
      other.join();
    }
    ranks.forEach(Communicator::close);
  }

  @Override
  public void run() {
    try (DeviceMemory from = rank.device().allocate(4 * COUNT);
        DeviceMemory to = rank.device().allocate(4 * COUNT);
        DeviceStream stream = rank.device().createStream()) {
      for (int n = 0; n < WARM; n++) {
        call(from, to, stream);
      }
      List<String> least = null;
      for (int n = 0; n < TRACED; n++) {
        together.await(300, TimeUnit.SECONDS);
        if (traces) {
          Entries.begin();
        }
        call(from, to, stream);
        if (traces) {
          List<String> found = Entries.end();
          boolean isWhole = found.stream().anyMatch(WarmCall::isTheEnd);
          least = isWhole && (least == null || found.size() < least.size()) ? found : least;
        }
      }
      if (traces) {
        least.forEach(System.out::println);
      }
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** True for the beginning of the host's kernel, and for the launch on a GPU. */
  private static boolean isTheEnd(String method) {
    return method.contains(".kernel.algorithm.") || method.endsWith(".DriverLibrary.launch");
  }

  /** All-reduces and waits, so that on the host this thread runs the kernel. */
  private void call(DeviceMemory from, DeviceMemory to, DeviceStream stream) {
    rank.allReduce(from, to, COUNT, DataType.FLOAT32, RedOp.SUM, stream);
    stream.synchronize();
  }
}
