package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.init.peers.InitRequest;
import org.nccl4j.api.init.peers.Membership;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreDomain;

class KernelSpecsTest {
  /** Ranks of two hosts, bound by turns to two nodes, as by mpirun --map-by socket. */
  @Test
  void theRanksOfAHostAreInTheOrderOfTheRing() {
    List<PeerInfo> peers = new ArrayList<>();
    List<AllowedCores> cores = new ArrayList<>();
    for (int rank = 0; rank < 8; rank++) {
      peers.add(
          new PeerInfo(rank, rank < 4 ? "a" : "b", "ns", "p" + rank, 0, Device.Kind.HOST, "host"));
      cores.add(new AllowedCores(1, "0", new CoreDomain(rank % 2, rank % 2)));
    }
    Membership members = new Membership(peers, cores, Collections.nCopies(8, new byte[0]), "", 1);
    InitRequest request =
        new InitRequest(
            "bound", HostDevice.instance(), Settings.alone(Map.of("NCCL4J_SINGLE_COPY", "off")));
    CommunicatorProfile facts =
        new CommunicatorProfile(
            8,
            Device.Kind.HOST,
            "host",
            /* reach= */ false,
            /* nvlink= */ false,
            new RankPlacement(2, 4, /* carried= */ true, 1, /* lines= */ false),
            Optional.empty(),
            Optional.empty(),
            4,
            BlockRoom.UNLIMITED);
    KernelCommunicatorSpec spec =
        KernelSpecs.of(
            request,
            3,
            members,
            new ConnectionLayout(1024, 0, 1024),
            new ChannelGraphs(List.of(), List.of(), Optional.empty()),
            facts,
            new KernelSpecs.Ends(List.of(), List.of(), null, null, null));
    assertEquals(List.of(List.of(0, 2, 1, 3), List.of(4, 6, 5, 7)), spec.hosts());
    assertTrue(spec.carried(), "as all ranks have agreed, whatever this one's connections are");
    assertArrayEquals(
        members.layout().ring(),
        spec.hosts().stream().flatMap(List::stream).mapToInt(Integer::intValue).toArray());
  }
}
