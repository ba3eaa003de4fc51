package org.nccl4j.it.nvls;

import java.io.File;
import java.io.IOException;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import jnr.ffi.LibraryLoader;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.support.Patience;

/**
 * A program that is one of two ranks. Rank 1 loses its CUDA context and closes once rank 0 has
 * heard of it.
 */
final class LostContextRank {
  private static final int ILLEGAL_ADDRESS = 700;
  private static final Duration LIMIT = Duration.ofSeconds(30);

  /** The entry of the fake driver that this program needs. Public for jnr-ffi's stubs. */
  public interface Fake {
    void fakeFail(String call, int code);
  }

  private LostContextRank() {}

  /** Arguments: rank, unique id, a file that rank 0 writes when it has heard. */
  public static void main(String[] arguments) throws Exception {
    int rank = Integer.parseInt(arguments[0]);
    UniqueId id = UniqueId.parse(arguments[1]);
    Path heard = Path.of(arguments[2]);
    ServerSocketChannel.open().close(); // from the first one on the JDK keeps a socket of its own
    long socketsBefore = sockets();
    Communicator communicator =
        Communicator.initRank(
            2, id, rank, Devices.cuda().device(rank), CommunicatorConfig.defaults());
    DeviceMemory memory = communicator.device().memAlloc(4096);
    communicator.registerWindow(memory);
    if (rank == 0) {
      await(() -> communicator.asyncError().isPresent());
      System.out.println("heard: " + communicator.asyncError());
      Files.createFile(heard);
      communicator.close();
      return;
    }
    DeviceStream stream = communicator.device().createStream();
    sum(communicator, memory, stream);
    stream.synchronize();
    Fake driver = LibraryLoader.create(Fake.class).load("libcuda.so.1");
    driver.fakeFail("cuLaunchKernelEx", ILLEGAL_ADDRESS);
    try {
      sum(communicator, memory, stream);
    } catch (NcclException e) {
      System.out.println("launch: " + e.problem());
    }
    await(() -> Files.exists(heard));
    driver.fakeFail("*", ILLEGAL_ADDRESS);
    try {
      communicator.close();
    } catch (NcclException e) {
      System.out.println("close: " + e.problem());
    }
    await(() -> threads().isEmpty());
    System.out.println("threads after close: " + threads());
    await(() -> sockets() <= socketsBefore);
    System.out.println("sockets after close: " + (sockets() - socketsBefore));
  }

  /** Those of this process. */
  private static long sockets() {
    File[] open = new File("/proc/self/fd").listFiles();
    return Stream.of(open)
        .map(LostContextRank::target)
        .filter(target -> target.startsWith("socket:"))
        .count();
  }

  private static String target(File link) {
    try {
      return Files.readSymbolicLink(link.toPath()).toString();
    } catch (IOException closedMeanwhile) {
      return "";
    }
  }

  private static void sum(Communicator communicator, DeviceMemory memory, DeviceStream stream) {
    communicator.allReduce(memory, memory, 100, DataType.FLOAT32, RedOp.SUM, stream);
  }

  private static void await(BooleanSupplier ready) {
    Patience.until(ready, LIMIT);
  }

  /** Those that live as long as there is a communicator. */
  private static List<String> threads() {
    List<String> ofCommunicators = List.of("nccl4j-bootstrap", "nccl4j-observer");
    return Thread.getAllStackTraces().keySet().stream()
        .map(Thread::getName)
        .filter(ofCommunicators::contains)
        .toList();
  }
}
