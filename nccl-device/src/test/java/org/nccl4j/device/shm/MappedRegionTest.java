package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.kenai.jffi.MemoryIO;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.SystemErrorException;

final class MappedRegionTest {
  private static final MemoryIO MEMORY = MemoryIO.getInstance();

  @Test
  void isZeroedAlignedAndTakesPagesOnlyWhereTouched() {
    long bytes = 1L << 40;
    try (MappedRegion region = MappedRegion.anonymous(bytes)) {
      assertEquals(0, region.address() % 4096);
      assertEquals(bytes, region.bytes());
      assertEquals(0, MEMORY.getLong(region.address() + bytes - 8));
      MEMORY.putLong(region.address() + bytes - 8, 42);
      assertEquals(42, MEMORY.getLong(region.address() + bytes - 8));
    }
  }

  @Test
  void closingUnmapsOnceAndForAll() {
    MappedRegion region = MappedRegion.anonymous(1L << 34);
    assertTrue(ProcessState.now().maps(region.address(), 1L << 34));
    region.close();
    assertEquals(false, ProcessState.now().maps(region.address(), 1L << 34));
    region.close();
  }

  @Test
  void refusesWhatCannotBeMapped() {
    assertThrows(InvalidArgumentException.class, () -> MappedRegion.anonymous(0));
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> MappedRegion.anonymous(1L << 60));
    assertTrue(e.getMessage().contains("mapping 1152921504606846976 bytes failed"), e.getMessage());
    assertTrue(e.getMessage().contains("ulimit -v"), e.getMessage());
    assertEquals(ErrorId.MEMORY, e.id());
  }

  @Test
  void aFileIsSharedBetweenItsMappings(@TempDir Path directory) throws IOException {
    Path file = directory.resolve("region");
    Files.write(file, new byte[8192]);
    try (MappedRegion one = MappedRegion.ofFile(file, 8192);
        MappedRegion other = MappedRegion.ofFile(file, 8192)) {
      Files.delete(file);
      MEMORY.putLong(one.address() + 8184, 5);
      assertEquals(5, MEMORY.getLong(other.address() + 8184));
    }
    SystemErrorException e =
        assertThrows(SystemErrorException.class, () -> MappedRegion.ofFile(file, 8192));
    assertTrue(e.getMessage().contains(file + " failed: No such file"), e.getMessage());
    assertEquals(ErrorId.SHARED_MEMORY, e.id());
  }
}
