package org.nccl4j.it.transport;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.NcclException;

/** Shared memory that cannot be had, as the user of a communicator sees it. */
@Timeout(600)
final class ShmFaultTest {
  @Test
  void aFullFileSystemIsAClearError(@TempDir Path mount) throws Exception {
    assumeTrue(mounts(mount), "mounting a tmpfs needs root and the capability CAP_SYS_ADMIN");
    try {
      NcclException e = failure("NCCL4J_SHM", mount.toString());
      assertContains(e, "more bytes of shared memory cannot be allocated in " + mount);
      assertContains(e, "No space left on device");
      assertContains(e, "--shm-size=1g");
      assertContains(e, "emptyDir with medium: Memory");
    } finally {
      new ProcessBuilder("umount", mount.toString()).inheritIO().start().waitFor();
    }
  }

  @Test
  void aMissingDirectoryIsAClearError() {
    NcclException e = failure("NCCL4J_SHM", "/nonexistent/shm");
    assertContains(e, "/nonexistent/shm");
    assertContains(e, "--shm-size=1g");
  }

  @Test
  void aMisspeltSourceIsAClearError() {
    assertContains(failure("NCCL4J_SHM", "hugetlb"), "set NCCL4J_SHM to memfd, devshm");
  }

  @Test
  void withBothSwitchedOffEachTransportGivesItsReason() {
    NcclException e = failure("NCCL_SHM_DISABLE", "1");
    assertContains(e, "NCCL_SHM_DISABLE is set");
  }

  private static NcclException failure(String setting, String value) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL4J_TRANSPORTS", "SHM").with(setting, value);
    return assertThrows(
        NcclException.class,
        () ->
            Communicator.initAll(Collections.nCopies(3, Devices.host()), config)
                .forEach(Communicator::close));
  }

  private static void assertContains(NcclException e, String text) {
    assertTrue(e.getMessage().contains(text), e.getMessage());
  }

  private static boolean mounts(Path at) throws Exception {
    return new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", at.toString())
            .start()
            .waitFor()
        == 0;
  }
}
