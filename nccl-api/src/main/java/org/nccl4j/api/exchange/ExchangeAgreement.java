package org.nccl4j.api.exchange;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.kernel.ExpertKernels.Form;

/** Meetings of all ranks while they create an exchange: all go on, or none does. */
public final class ExchangeAgreement {
  private final CommunicatorState state;
  private final String call;
  private final Record sizes;

  /**
   * The agreement on one exchange.
   *
   * @param call that creates it, as {@link CommunicatorState#exchange} takes it
   * @param sizes of this rank; those of two ranks are the same if their texts are
   */
  public ExchangeAgreement(CommunicatorState state, String call, Record sizes) {
    this.state = state;
    this.call = call;
    this.sizes = sizes;
  }

  /**
   * Compares the ranks' sizes, and finds the form of their kernels.
   *
   * @param own of this rank
   * @param error of this rank, or null
   * @return the form that suits all ranks, or the first rank that has none and its reason
   * @throws NcclException if the sizes differ, or a rank has an error
   */
  public KernelOffer reach(KernelOffer own, NcclException error) {
    List<Part> parts = meet(own, error);
    Form form = own.form();
    String obstacle = "";
    for (int rank = 0; rank < parts.size(); rank++) {
      Part other = parts.get(rank);
      if (!other.sizes.equals(sizes.toString())) {
        throw new InvalidArgumentException(
            ErrorId.COUNT,
            "%s in communicator %s: rank %d has %s, rank %d has %s"
                .formatted(call, state.name(), state.rank(), sizes, rank, other.sizes),
            "pass the same sizes on all ranks");
      }
      form = form.and(other.offer.form());
      if (obstacle.isEmpty() && !other.offer.hasKernels()) {
        obstacle =
            "rank %d has no kernels for them, since %s".formatted(rank, other.offer.obstacle());
      }
    }
    return new KernelOffer(form, obstacle);
  }

  /** Throws on all ranks if one of them has an error. */
  public void reach(NcclException error) {
    meet(KernelOffer.NONE, error);
  }

  private List<Part> meet(KernelOffer offer, NcclException error) {
    Part mine = new Part(sizes.toString(), offer, error == null ? "" : error.problem());
    List<Part> parts = new ArrayList<>();
    for (byte[] part : state.exchange(call, mine.toBytes())) {
      parts.add(Part.of(part));
    }
    if (error != null) {
      throw error;
    }
    for (int rank = 0; rank < parts.size(); rank++) {
      String problem = parts.get(rank).problem;
      if (!problem.isEmpty()) {
        throw new RemoteException(
            "%s in communicator %s: rank %d has failed: %s"
                .formatted(call, state.name(), rank, problem),
            "see that rank's error");
      }
    }
    return parts;
  }

  /** A rank's sizes, kernels and problem, which is empty if it has none. */
  private record Part(String sizes, KernelOffer offer, String problem) {
    byte[] toBytes() {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      try (DataOutputStream out = new DataOutputStream(bytes)) {
        out.writeUTF(sizes);
        out.writeInt(offer.form().blocks());
        out.writeBoolean(offer.form().wholeLines());
        out.writeDouble(offer.form().bandwidth());
        out.writeUTF(offer.obstacle());
        out.writeUTF(problem);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      return bytes.toByteArray();
    }

    static Part of(byte[] bytes) {
      try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
        return new Part(
            in.readUTF(),
            new KernelOffer(
                new Form(in.readInt(), in.readBoolean(), in.readDouble()), in.readUTF()),
            in.readUTF());
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
