package org.nccl4j.it.nvls;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.operation.Operation;

/**
 * A program that is the ranks of one of several hosts, of one communicator after the other. Each
 * stores into the windows of the other ranks what they look for.
 */
final class CliqueRank {
  private static final int BYTES = 3_000_001;

  private CliqueRank() {}

  /**
   * Arguments: ranks; the first of this host, how many there are, the device of the first; then for
   * each communicator its unique id and its settings, with semicolons in between.
   */
  public static void main(String[] arguments) throws Exception {
    int first = Integer.parseInt(arguments[1]);
    List<CompletableFuture<Void>> ranks = new ArrayList<>();
    for (int place = 0; place < Integer.parseInt(arguments[2]); place++) {
      int rank = first + place;
      CudaDevice device = Devices.cuda().device(Integer.parseInt(arguments[3]) + place);
      ranks.add(
          CompletableFuture.runAsync(
              () -> run(arguments, rank, device), task -> new Thread(task).start()));
    }
    CompletableFuture.allOf(ranks.toArray(CompletableFuture<?>[]::new)).get();
  }

  private static void run(String[] arguments, int rank, CudaDevice device) {
    int nRanks = Integer.parseInt(arguments[0]);
    // Made before it can be known that it needs a fabric handle.
    try (DeviceMemory early = device.memAlloc(1)) {
      for (int at = 4; at < arguments.length; at++) {
        System.out.println("communicator " + (at - 4));
        String[] parts = arguments[at].split(";");
        CommunicatorConfig config = CommunicatorConfig.defaults();
        for (String setting : Arrays.asList(parts).subList(1, parts.length)) {
          config = config.with(setting.split("=")[0], setting.split("=")[1]);
        }
        try (Communicator comm =
            Communicator.initRank(nRanks, UniqueId.parse(parts[0]), rank, device, config)) {
          use(comm, device, early);
        } catch (NcclException e) {
          System.out.println("error " + e.getMessage());
        }
      }
    }
  }

  private static void use(Communicator comm, CudaDevice device, DeviceMemory early) {
    System.out.println("transports " + comm.transports());
    System.out.println(comm.explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32));
    if (Boolean.getBoolean("nccl4j.windows") && comm.transports().containsValue("P2P")) {
      exchange(comm, device);
      try {
        comm.registerWindow(early);
        System.out.println("early memory taken");
      } catch (NcclException e) {
        System.out.println("early memory refused: " + e.getMessage());
      }
    }
  }

  /** By copies of streams; the signals' kernels are only launched here. */
  private static void exchange(Communicator comm, CudaDevice device) {
    int n = comm.nRanks();
    try (DeviceMemory memory = device.memAlloc((long) n * BYTES);
        DeviceMemory source = device.allocate(BYTES);
        DeviceStream stream = device.createStream()) {
      Window window = comm.registerWindow(memory);
      source.write(0, ByteBuffer.wrap(data(comm.rank())));
      for (int peer = 0; peer < n; peer++) {
        if (peer != comm.rank()) {
          comm.putSignal(
              source, BYTES, DataType.INT8, peer, window, (long) comm.rank() * BYTES, stream);
        }
      }
      stream.synchronize();
      comm.deregisterWindowOnAllRanks(window); // no rank comes back before all have put
      for (int from = 0; from < n; from++) {
        byte[] seen = new byte[BYTES];
        memory.read((long) from * BYTES, ByteBuffer.wrap(seen));
        if (from != comm.rank() && !Arrays.equals(seen, data(from))) {
          throw new AssertionError("what rank " + from + " put is not there");
        }
      }
      System.out.println("window of %d ranks".formatted(n));
    }
  }

  private static byte[] data(int rank) {
    byte[] data = new byte[BYTES];
    new Random(rank).nextBytes(data);
    return data;
  }
}
