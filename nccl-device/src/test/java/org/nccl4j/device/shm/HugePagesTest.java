package org.nccl4j.device.shm;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class HugePagesTest {
  @TempDir Path settings;

  private Path write(String setting, String value) throws IOException {
    return Files.writeString(settings.resolve(setting), value + "\n");
  }

  @Test
  void aSettingThatForbidsThemIsNamedWithItsRemedy() throws IOException {
    Path shared = write("shmem_enabled", "always within_size advise [never] deny force");
    Path own = write("enabled", "always madvise [never]");
    assertEquals(
        List.of(
            "takes small pages for memory that processes share, since %s is never (write advise to it as root)"
                .formatted(shared),
            "takes small pages for a process's own memory, since %s is never (write madvise to it as root)"
                .formatted(own)),
        HugePages.obstacles(settings));
  }

  @Test
  void whereTheyAreAllowedOrUnknownNothingIsSaid() throws IOException {
    assertEquals(List.of(), HugePages.obstacles(settings));
    write("shmem_enabled", "always within_size [advise] never deny force");
    write("enabled", "always [madvise] never");
    assertEquals(List.of(), HugePages.obstacles(settings));
  }
}
