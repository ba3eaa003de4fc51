package org.nccl4j.it.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import jdk.jfr.Event;
import jdk.jfr.Recording;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.InvalidArgumentException;

/** Files that are no whole recordings. */
@Timeout(600)
class RecordingReaderTest {
  /** Where a recording has the place of its metadata. */
  private static final int METADATA_AT = 24;

  private static final int SIZE_AT = 8;

  @TempDir Path folder;

  private Path file;

  private static final class Some extends Event {}

  @BeforeEach
  void record() throws IOException {
    file = folder.resolve("some.jfr");
    try (Recording recording = new Recording()) {
      recording.enable(Some.class);
      recording.start();
      new Some().commit();
      recording.stop();
      recording.dump(file);
    }
  }

  private String problem() {
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> RecordingReader.read(file));
    assertTrue(e.problem().startsWith(file + " cannot be read as a recording: "), e.problem());
    return e.problem();
  }

  private void put(int at, long number) throws IOException {
    byte[] bytes = Files.readAllBytes(file);
    ByteBuffer.wrap(bytes).putLong(at, number);
    Files.write(file, bytes);
  }

  @Test
  void oneWithoutOurEventsHasNoSpan() {
    assertEquals(List.of(), RecordingReader.read(file));
  }

  /** The JDK throws an ArrayIndexOutOfBoundsException. */
  @Test
  void aDamagedOneIsNamed() throws IOException {
    put(METADATA_AT, -1);
    assertTrue(problem().contains("it is damaged"), problem());
  }

  /** The JDK would wait for ever. */
  @Test
  void oneThatIsNotFinishedIsNamed() throws IOException {
    put(SIZE_AT, 0);
    assertTrue(problem().contains("has not finished it"), problem());
  }

  /** A recording that was written for long has several parts, each with a header. */
  @Test
  void aLaterPartThatIsNotWholeIsNamed() throws IOException {
    byte[] part = Files.readAllBytes(file);
    byte[] two = Arrays.copyOf(part, 2 * part.length);
    System.arraycopy(part, 0, two, part.length, part.length);
    Files.write(file, two);
    assertEquals(List.of(), RecordingReader.read(file));
    for (int length : new int[] {two.length - 1, part.length + METADATA_AT, part.length + 1}) {
      Files.write(file, Arrays.copyOf(two, length));
      assertTrue(problem().contains("the file is cut off"), problem());
    }
    Files.write(file, two);
    put(part.length + SIZE_AT, 0);
    assertTrue(problem().contains("has not finished it"), problem());
  }

  /** No process writes it, and no dump would mend it. */
  @Test
  void aForeignFileIsNotCalledUnfinished() throws IOException {
    byte[] numbers = "time,bytes,rank\n".repeat(9).getBytes(StandardCharsets.US_ASCII);
    for (int length : new int[] {0, 3, 5, numbers.length}) {
      Files.write(file, Arrays.copyOf(numbers, length));
      assertFalse(problem().contains("has not finished it"), problem());
    }
  }

  @Test
  void anEmptyOneIsNamed() throws IOException {
    Files.write(file, new byte[0]);
    problem();
  }
}
