package org.nccl4j.api;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/** Meetings of all ranks while they create an exchange with experts: all go on, or none does. */
final class ExpertAgreement {
  private static final String CALL = "expertExchange";

  private ExpertAgreement() {}

  /**
   * Compares the ranks' sizes, and finds the blocks of their kernels.
   *
   * @param blocks the most that this rank's kernels can have; 0 if it has none
   * @param error of this rank, or null
   * @return the least of all ranks' blocks
   * @throws NcclException if the sizes differ, or a rank has an error
   */
  static int reach(CommunicatorState state, ExpertConfig config, int blocks, NcclException error) {
    List<Part> parts = meet(state, new Part(config, blocks, problem(error)), error);
    int least = blocks;
    for (int rank = 0; rank < parts.size(); rank++) {
      Part other = parts.get(rank);
      if (!other.config.equals(config)) {
        throw new InvalidArgumentException(
            ErrorId.COUNT,
            "expertExchange in communicator %s: rank %d has %s, rank %d has %s"
                .formatted(state.name(), state.rank(), config, rank, other.config),
            "pass the same sizes on all ranks");
      }
      least = Math.min(least, other.blocks);
    }
    return least;
  }

  /** Throws on all ranks if one of them has an error. */
  static void reach(CommunicatorState state, ExpertConfig config, NcclException error) {
    meet(state, new Part(config, 0, problem(error)), error);
  }

  private static String problem(NcclException error) {
    return error == null ? "" : error.problem();
  }

  private static List<Part> meet(CommunicatorState state, Part mine, NcclException error) {
    List<Part> parts = new ArrayList<>();
    for (byte[] part : state.exchange(CALL, mine.toBytes())) {
      parts.add(Part.of(part));
    }
    if (error != null) {
      throw error;
    }
    for (int rank = 0; rank < parts.size(); rank++) {
      String problem = parts.get(rank).problem;
      if (!problem.isEmpty()) {
        throw new RemoteException(
            "expertExchange in communicator %s: rank %d has failed: %s"
                .formatted(state.name(), rank, problem),
            "see that rank's error");
      }
    }
    return parts;
  }

  /** A rank's sizes, most blocks and problem, which is empty if it has none. */
  private record Part(ExpertConfig config, int blocks, String problem) {
    byte[] toBytes() {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (DataOutputStream out = new DataOutputStream(bytes)) {
        out.writeInt(config.maxTokens());
        out.writeInt(config.hidden());
        out.writeInt(config.topK());
        out.writeInt(config.experts());
        out.writeInt(config.type().ordinal());
        out.writeBoolean(config.fp8());
        out.writeInt(blocks);
        out.writeUTF(problem);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      return bytes.toByteArray();
    }

    static Part of(byte[] bytes) {
      try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
        ExpertConfig config =
            new ExpertConfig(
                in.readInt(),
                in.readInt(),
                in.readInt(),
                in.readInt(),
                DataType.values()[in.readInt()],
                in.readBoolean());
        return new Part(config, in.readInt(), in.readUTF());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
