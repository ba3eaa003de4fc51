package org.nccl4j.it.run;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.LinkedHashMap;
import java.util.Map;
import org.nccl4j.api.UniqueId;

/**
 * The variables that a rank finds.
 *
 * @param nRanks all ranks
 * @param placement of the ranks
 * @param id of the communicator that the program makes first; its root listens in this process
 * @param port free when this was made, for programs that meet at MASTER_PORT
 */
record RankEnvironment(int nRanks, Placement placement, UniqueId id, int port) {
  static RankEnvironment create(int nRanks, Placement placement) {
    try (ServerSocket probe = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return new RankEnvironment(nRanks, placement, UniqueId.create(), probe.getLocalPort());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** A variable with its value, as ranks of this run have it and no others. */
  String mark() {
    return "NCCL4J_UNIQUE_ID=" + id;
  }

  /** The variables of one rank. */
  Map<String, String> of(int rank) {
    Map<String, String> variables = new LinkedHashMap<>();
    variables.put("NCCL4J_RANK", Integer.toString(rank));
    variables.put("NCCL4J_NRANKS", Integer.toString(nRanks));
    String local = Integer.toString(placement.localRank(rank, nRanks));
    variables.put("NCCL4J_LOCAL_RANK", local);
    variables.put("NCCL4J_UNIQUE_ID", id.toString());
    variables.put("RANK", Integer.toString(rank));
    variables.put("WORLD_SIZE", Integer.toString(nRanks));
    variables.put("LOCAL_RANK", local);
    if (placement.isHere()) {
      variables.put("LOCAL_WORLD_SIZE", Integer.toString(nRanks));
    }
    variables.put("MASTER_ADDR", placement.isHere() ? "127.0.0.1" : placement.address(0, nRanks));
    variables.put("MASTER_PORT", Integer.toString(port));
    return variables;
  }
}
