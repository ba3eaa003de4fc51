package org.nccl4j.it.nvls;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;
import org.nccl4j.device.NcclException;

/** A program that prints of two ranks whether they have a communicator, or why not. */
final class FakeGpuErrors {
  private FakeGpuErrors() {}

  /** Arguments: the GPU of each rank. */
  public static void main(String[] arguments) {
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_SOCKET_IFNAME", "lo");
    UniqueId id = UniqueId.create(config);
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < arguments.length; rank++) {
      Device device = Devices.cuda().list().get(Integer.parseInt(arguments[rank]));
      joining.add(Communicator.initRankAsync(arguments.length, id, rank, device, config));
    }
    List<Communicator> made = new ArrayList<>();
    for (int rank = 0; rank < arguments.length; rank++) {
      try {
        made.add(joining.get(rank).join());
        System.out.println("rank " + rank + ": made");
      } catch (CompletionException e) {
        NcclException error = (NcclException) e.getCause();
        System.out.println(
            "rank %d: %s: %s; remedy: %s"
                .formatted(rank, error.id().text(), error.problem(), error.remedy())
                .replace('\n', ' '));
      }
    }
    made.forEach(Communicator::close);
  }
}
