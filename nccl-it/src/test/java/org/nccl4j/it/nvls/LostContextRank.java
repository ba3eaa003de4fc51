package org.nccl4j.it.nvls;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
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
 * A program that is one of two ranks. Rank 1 loses its CUDA context and closes once rank 0 has heard
 * of it.
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
    LibraryLoader.create(Fake.class).load("libcuda.so.1").fakeFail("*", ILLEGAL_ADDRESS);
    try {
      communicator.allReduce(memory, memory, 100, DataType.FLOAT32, RedOp.SUM, stream);
    } catch (NcclException e) {
      System.out.println("launch: " + e.problem());
    }
    await(() -> Files.exists(heard));
    try {
      communicator.close();
    } catch (NcclException e) {
      System.out.println("close: " + e.problem());
    }
    await(() -> threads().isEmpty());
    System.out.println("threads after close: " + threads());
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
