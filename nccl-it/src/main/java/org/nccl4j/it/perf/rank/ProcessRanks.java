package org.nccl4j.it.perf.rank;

import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.it.run.Placement;

/** Ranks as processes. */
public final class ProcessRanks {
  private ProcessRanks() {}

  /**
   * Starts them.
   *
   * @param all of the first process; the others' are like it
   * @param placement on which machines
   * @param err where to show what the ranks print, each line with its rank
   * @throws SystemErrorException if a process cannot be started
   */
  public static Ranks start(RankSpec all, Placement placement, PrintWriter err) {
    List<RankLink> links = new ArrayList<>();
    try {
      for (int rank = 0; rank < all.nRanks(); rank++) {
        links.add(ProcessLink.start(placement, all.at(rank, 1), err));
      }
      return new LinkedRanks(links);
    } catch (NcclException e) {
      links.forEach(RankLink::close);
      throw e;
    } catch (IOException e) {
      links.forEach(RankLink::close);
      throw new SystemErrorException(
          "rank " + links.size() + "'s process cannot be started (" + e.getMessage() + ")",
          placement.isHere()
              ? "see that the machine has memory and processes left (ulimit -u)"
              : "name a command that is in PATH with --launcher, and see that the machine has"
                  + " memory and processes left (ulimit -u)",
          e);
    }
  }
}
