package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/** A limit of 1,000 files, of which 300 are open. */
class OpenFilesTest {
  private final AtomicLong open = new AtomicLong(300);
  private final AtomicLong clock = new AtomicLong();
  private final OpenFiles files = new OpenFiles(() -> 1000, open::get, clock::get);

  private static OpenFiles.Need need(int descriptors) {
    return new OpenFiles.Need(7, 200, descriptors, 4);
  }

  @Test
  void theErrorNamesLimitNeedAndRemedy() {
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> files.promise(need(637)));
    assertEquals(ErrorId.OPEN_FILES, e.id());
    assertTrue(e.problem().contains("rank 7 needs 637 descriptors to connect with 200 ranks"));
    assertTrue(e.problem().contains("has 300 open files"), e.problem());
    assertTrue(e.problem().contains("a limit of 1000"), e.problem());
    assertTrue(e.remedy().contains("to 2912 (ulimit -n"), e.remedy()); // 300 + 4 * 637 + 64
  }

  /** Which leaves sockets out only where there are more than one for a connection. */
  @Test
  void theNumberOfSocketsIsARemedyWhereThereAreMany() {
    String many = assertThrows(SystemErrorException.class, () -> files.promise(need(800))).remedy();
    assertTrue(many.contains("in a process, or set NCCL_SOCKET_NTHREADS=0 on all ranks"), many);
    open.set(900);
    clock.addAndGet(1_000_000_000);
    String few = assertThrows(SystemErrorException.class, () -> files.promise(need(400))).remedy();
    assertTrue(few.endsWith("of a service), or run fewer ranks in a process"), few);
    assertTrue(few.startsWith("raise the limit of open files to 2564 (ulimit -n"), few);
  }

  @Test
  void promisesOfOtherRanksCount() {
    OpenFiles.Promise first = files.promise(need(400));
    assertThrows(SystemErrorException.class, () -> files.promise(need(300)));
    open.set(340); // the first rank has opened fewer than it said
    first.close();
    assertDoesNotThrow(() -> files.promise(need(300)));
  }

  @Test
  void filesThatOthersOpenedCountAfterAWhile() {
    files.promise(need(1)).close();
    open.set(990);
    clock.addAndGet(1_000_000_000);
    assertThrows(SystemErrorException.class, () -> files.promise(need(1)));
  }

  @Test
  void connectionsWithoutDescriptorsAreNotRefused() {
    open.set(5000);
    assertDoesNotThrow(() -> files.promise(need(0)));
  }

  @Test
  void theProcessHasALimit() {
    OpenFiles.Need all = new OpenFiles.Need(0, 1, Long.MAX_VALUE / 2, 1);
    assertThrows(SystemErrorException.class, () -> OpenFiles.ofProcess().promise(all));
  }
}
