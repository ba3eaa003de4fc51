package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RedOp;

/** Communicators that have nothing in common but the order in which they are used. */
@Timeout(600)
class OrderConflictTest {
  static final List<String> ALONE =
      List.of("/usr/bin/unshare", "--map-root-user", "--pid", "--fork", "--mount-proc");
  private static final CommunicatorConfig DEBUG =
      CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_GLOBAL");

  @Test
  void conflictingOrdersAreNamedInsteadOfHanging() throws Exception {
    List<NcclException> errors = new ArrayList<>();
    try (Ranks first = new Ranks(2, DEBUG.withName("weights"));
        Ranks second = new Ranks(2, DEBUG.withName("gradients"))) {
      CyclicBarrier bothCalled = new CyclicBarrier(2);
      first.run(
          (comm, stream) -> {
            Communicator other = second.communicators.get(comm.rank());
            List<Communicator> order =
                comm.rank() == 0 ? List.of(comm, other) : List.of(other, comm);
            try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
              for (Communicator each : order) {
                sum(each, data, stream);
              }
              bothCalled.await();
              stream.synchronize();
            } catch (NcclException e) {
              synchronized (errors) {
                errors.add(e);
              }
            }
          });
      List<NcclException> all = new ArrayList<>(errors);
      for (Ranks ranks : List.of(first, second)) {
        ranks.communicators.forEach(comm -> comm.asyncError().ifPresent(all::add));
      }
      NcclException mismatch =
          all.stream()
              .filter(OrderMismatchException.class::isInstance)
              .findFirst()
              .orElseThrow(() -> new AssertionError(all.toString()));
      assertTrue(mismatch.problem().contains("communicators "), mismatch.problem());
      assertTrue(mismatch.problem().contains("weights"), mismatch.problem());
      assertTrue(mismatch.problem().contains("gradients"), mismatch.problem());
      assertTrue(mismatch.problem().contains("used in different orders"), mismatch.problem());
    }
  }

  /** Each rank in a process that sees no other process, as on a host of its own. */
  @Test
  void ofTwoHostsTheyTellEachOther() throws Exception {
    assumeTrue(Files.isExecutable(Path.of("/usr/bin/unshare")), "no /usr/bin/unshare");
    assumeTrue(run(ALONE, "true").waitFor() == 0, "unshare makes no process that is alone");
    UniqueId weights = UniqueId.create();
    UniqueId gradients = UniqueId.create();
    List<Process> processes = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      List<String> command = RankJvm.command();
      command.addAll(List.of(FarOrders.class.getName(), Integer.toString(rank)));
      command.addAll(List.of(weights.toString(), gradients.toString()));
      processes.add(run(ALONE, command.toArray(String[]::new)));
    }
    for (Process process : processes) {
      String said =
          new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
      assertTrue(process.waitFor(300, TimeUnit.SECONDS));
      assertTrue(said.startsWith("in one order it works"), said);
      assertTrue(said.contains("communicators "), said);
      assertTrue(said.contains("weights and gradients") || said.contains("gradients and weights"));
      assertTrue(said.contains("are used in different orders"), said);
      assertTrue(said.contains("behind it"), said);
    }
  }

  static Process run(List<String> before, String... command) throws IOException {
    List<String> all = new ArrayList<>(before);
    all.addAll(List.of(command));
    return new ProcessBuilder(all).redirectError(ProcessBuilder.Redirect.INHERIT).start();
  }

  private static void sum(Communicator comm, DeviceMemory data, DeviceStream stream) {
    comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
  }
}
