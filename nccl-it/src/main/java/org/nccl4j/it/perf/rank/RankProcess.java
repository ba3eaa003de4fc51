package org.nccl4j.it.perf.rank;

import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.InternalErrorException;

/**
 * A rank in a process of its own: reads orders from its standard input, asleep until one comes, and
 * writes answers to its standard output. Ends when the input does, which is also what happens when
 * the coordinator dies.
 */
public final class RankProcess {
  private RankProcess() {}

  private static Communicator join(RankSpec spec, String uniqueId, CommunicatorConfig config) {
    UniqueId id = UniqueId.parse(uniqueId);
    return Communicator.initRank(spec.nRanks(), id, spec.rank(), spec.device(spec.rank()), config);
  }

  /**
   * Serves until told to leave.
   *
   * @param in orders, after a {@link RankSpec}
   * @param answers only this class may write there
   * @return the exit status
   */
  public static int serve(InputStream in, PrintStream answers) {
    System.setOut(System.err);
    try {
      ObjectOutputStream out = new ObjectOutputStream(new BufferedOutputStream(answers));
      out.flush();
      ObjectInputStream orders = new ObjectInputStream(in);
      try (RankWorker worker = new RankWorker((RankSpec) orders.readObject(), RankProcess::join)) {
        Command order;
        do {
          order = (Command) orders.readObject();
          out.writeObject(worker.obey(order));
          out.flush();
        } while (!(order instanceof Command.Leave));
        return 0;
      }
    } catch (EOFException e) {
      return 1;
    } catch (IOException | ClassNotFoundException e) {
      throw new InternalErrorException(
          "a rank's process cannot read its commands (" + e + ")",
          "this command is started by perf --processes, not by hand",
          e);
    }
  }
}
