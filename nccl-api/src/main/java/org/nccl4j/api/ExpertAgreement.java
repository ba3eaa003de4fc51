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
import org.nccl4j.device.kernel.ExpertKernels.Form;

/** Meetings of all ranks while they create an exchange with experts: all go on, or none does. */
final class ExpertAgreement {
  private static final String CALL = "expertExchange";

  private ExpertAgreement() {}

  /**
   * Compares the ranks' sizes, and finds the form of their kernels.
   *
   * @param best of this rank
   * @param error of this rank, or null
   * @return the form that suits all ranks
   * @throws NcclException if the sizes differ, or a rank has an error
   */
  static Form reach(CommunicatorState state, ExpertConfig config, Form best, NcclException error) {
    List<Part> parts = meet(state, new Part(config, best, problem(error)), error);
    Form form = best;
    for (int rank = 0; rank < parts.size(); rank++) {
      Part other = parts.get(rank);
      if (!other.config.equals(config)) {
        throw new InvalidArgumentException(
            ErrorId.COUNT,
            "expertExchange in communicator %s: rank %d has %s, rank %d has %s"
                .formatted(state.name(), state.rank(), config, rank, other.config),
            "pass the same sizes on all ranks");
      }
      form = form.and(other.form);
    }
    return form;
  }

  /** Throws on all ranks if one of them has an error. */
  static void reach(CommunicatorState state, ExpertConfig config, NcclException error) {
    meet(state, new Part(config, Form.NONE, problem(error)), error);
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

  /** A rank's sizes, best form and problem, which is empty if it has none. */
  private record Part(ExpertConfig config, Form form, String problem) {
    byte[] toBytes() {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (DataOutputStream out = new DataOutputStream(bytes)) {
        out.writeInt(config.maxTokens());
        out.writeInt(config.hidden());
        out.writeInt(config.topK());
        out.writeInt(config.experts());
        out.writeInt(config.type().ordinal());
        out.writeBoolean(config.fp8());
        out.writeInt(form.blocks());
        out.writeBoolean(form.wholeLines());
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
        Form form = new Form(in.readInt(), in.readBoolean());
        return new Part(config, form, in.readUTF());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
