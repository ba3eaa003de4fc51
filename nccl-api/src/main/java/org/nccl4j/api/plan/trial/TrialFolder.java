package org.nccl4j.api.plan.trial;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.os.IoErrorText;

/** The folder that NCCL4J_TRIALS names. Its files decide which algorithms are tried and chosen. */
final class TrialFolder {
  private static final System.Logger LOG = DebugLog.of("TUNING");

  /** Folders of which a warning has told. */
  private static final Set<String> REFUSED = ConcurrentHashMap.newKeySet();

  /** The owner of root's files in a network's file system that does not know root. */
  private static final int NOBODY = 65_534;

  private TrialFolder() {}

  /**
   * Makes it where it is missing. One that is there may belong to this user or to root, and other
   * users may not write to it, except for those of its group.
   *
   * @throws IOException if it cannot be made, or other users may change its files
   */
  static void make(Path folder) throws IOException {
    Files.createDirectories(folder);
    try {
      int owner = (int) Files.getAttribute(folder, "unix:uid");
      int user = (int) Files.getAttribute(Path.of("/proc/self"), "unix:uid");
      if (!List.of(user, 0, NOBODY).contains(owner)) {
        throw new Distrusted(
            folder, "it belongs to user %d, not to this process's user %d".formatted(owner, user));
      }
      if (Files.getPosixFilePermissions(folder).contains(PosixFilePermission.OTHERS_WRITE)) {
        throw new Distrusted(folder, "all users may write to it");
      }
    } catch (UnsupportedOperationException | IllegalArgumentException e) {
      return; // a file system without owners
    }
  }

  /**
   * Warns, once in a process for each consequence, that a folder cannot be used.
   *
   * @param who cannot use it
   * @param consequence a clause
   */
  static void refused(String folder, String who, String consequence, Exception reason) {
    String remedy = remedy(folder, reason);
    if (REFUSED.add(remedy + ' ' + folder)) {
      LOG.log(
          System.Logger.Level.WARNING,
          "{0} cannot use the folder {1} of NCCL4J_TRIALS ({2}), so {3}: {4}, or name another"
              + " folder in NCCL4J_TRIALS",
          who,
          folder,
          IoErrorText.of(reason),
          consequence,
          remedy);
    }
  }

  private static String remedy(String folder, Exception reason) {
    boolean ofRights = reason instanceof Distrusted || reason instanceof AccessDeniedException;
    return ofRights
        ? ("give the folder to the user of the ranks (chown %s %2$s), let that user alone write to"
                + " it (chmod u+rwx,o-w %2$s)")
            .formatted(System.getProperty("user.name", "USER"), folder)
        : "see that its file system is mounted there and has room";
  }

  /** Other users may change the files of a folder. */
  private static final class Distrusted extends FileSystemException {
    private static final long serialVersionUID = 1;

    Distrusted(Path folder, String reason) {
      super(folder.toString(), null, reason);
    }
  }
}
