package org.nccl4j.api.plan.trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

class TrialFileTest {
  private static final TrialTimes.Way WAY =
      new TrialTimes.Way(Operation.ALL_REDUCE, Algorithm.RING, Protocol.LL);
  private static final TrialTimes.Sample SAMPLE =
      new TrialTimes.Sample(3, 399, false, WAY, 4096, 7.5, 8.91);

  @TempDir Path folder;

  private List<String> lines() {
    List<String> lines = new ArrayList<>(TrialFile.header(-2, 1, "4", "NVIDIA H200"));
    lines.add(TrialFile.line(WAY, new TreeMap<>(Map.of(128L, 7.2, 512L, 7.21))));
    lines.add(TrialFile.line(SAMPLE));
    lines.add(TrialFile.missing(List.of(2, 3)));
    return lines;
  }

  private Path write(List<String> lines) throws IOException {
    Path file = folder.resolve(TrialFile.name(-2, 1, 77));
    TrialFile.create(file, lines);
    return file;
  }

  /** A job writes while its files are read: those that are there are whole. */
  @Test
  void aFileIsThereOnceItsHeaderIs() throws IOException {
    List<String> lines = lines();
    TrialTimes whole = TrialFile.parse("file", lines);
    write(lines);
    List<String> looking =
        new AbstractList<>() {
          @Override
          public String get(int line) {
            assertEquals(List.of(whole), TrialFile.readAll(folder), "before line " + line);
            return lines.get(line);
          }

          @Override
          public int size() {
            return lines.size();
          }
        };
    write(looking);
    assertEquals(List.of(whole), TrialFile.readAll(folder));
    try (Stream<Path> left = Files.list(folder)) {
      assertEquals(1, left.count());
    }
  }

  /** Another user of the folder may have put the link there. */
  @Test
  void nothingIsAppendedThroughALink() throws IOException {
    Path other = Files.writeString(folder.resolve("other"), "kept");
    Path link = Files.createSymbolicLink(folder.resolve("trials"), other);
    assertThrows(IOException.class, () -> TrialFile.append(link, List.of("line")));
    assertEquals("kept", Files.readString(other));
  }

  @Test
  void aFolderThatAllMayWriteToIsRefused() throws IOException {
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwx---"));
    write(lines());
    Files.setPosixFilePermissions(folder, PosixFilePermissions.fromString("rwxrwxrwx"));
    IOException e = assertThrows(IOException.class, () -> write(lines()));
    assertTrue(IoErrorText.of(e).contains("all users may write to it"), e.toString());
  }

  @Test
  void whatIsWrittenIsRead() throws IOException {
    write(lines());
    TrialTimes read = TrialFile.readAll(folder).get(0);
    assertEquals(
        new TrialTimes(
            -2,
            "4",
            "NVIDIA H200",
            Map.of(WAY, new TreeMap<>(Map.of(128L, 7.2, 512L, 7.21))),
            List.of(SAMPLE),
            List.of(2, 3)),
        read);
  }

  /** A folder may have files of a job that ran before an update. */
  @Test
  void filesOfTheVersionBeforeAreRead() throws IOException {
    List<String> lines = new ArrayList<>(lines().subList(0, 5));
    lines.set(0, "nccl4j trials 2");
    write(lines);
    TrialTimes read = TrialFile.readAll(folder).get(0);
    assertEquals(List.of(SAMPLE), read.samples());
    assertEquals(List.of(), read.missing());
  }

  /** Some algorithms have one label. */
  @Test
  void allAlgorithmsAreToldApart() throws IOException {
    List<String> lines = new ArrayList<>(lines().subList(0, 3));
    List<TrialTimes.Sample> samples = new ArrayList<>();
    for (Algorithm algorithm : Algorithm.values()) {
      for (Protocol protocol : Protocol.values()) {
        TrialTimes.Way way = new TrialTimes.Way(Operation.ALL_REDUCE, algorithm, protocol);
        samples.add(new TrialTimes.Sample(0, samples.size(), true, way, 8, 1.5, 2.5));
      }
    }
    samples.forEach(sample -> lines.add(TrialFile.line(sample)));
    write(lines);
    assertEquals(samples, TrialFile.readAll(folder).get(0).samples());
  }

  @Test
  void aLineThatIsBeingWrittenIsIgnored() throws IOException {
    Path file = write(lines());
    Files.writeString(file, Files.readString(file) + "tried 3 499 AllRed");
    assertEquals(List.of(SAMPLE), TrialFile.readAll(folder).get(0).samples());
  }

  @Test
  void aDamagedLineIsNamed() throws IOException {
    for (String bad :
        List.of(
            "tried 3 499 AllReduce RING LL 4096",
            "tried 3 499 AllReduce RINGO LL 4096 7:8",
            "tried 3 x AllReduce RING LL 4096 7:8",
            "predicted AllReduce RING LL",
            "missing 1 x",
            "found 3")) {
      List<String> lines = lines();
      lines.add(bad);
      Path file = write(lines);
      var error =
          assertThrows(InvalidArgumentException.class, () -> TrialFile.readAll(folder), bad);
      assertTrue(error.problem().startsWith(file + ", line 7:"), error.problem());
    }
    write(List.of("something else"));
    assertTrue(
        assertThrows(InvalidArgumentException.class, () -> TrialFile.readAll(folder))
            .problem()
            .contains("line 1"));
  }

  @Test
  void aFolderWithoutFilesIsRefusedWithARemedy() {
    var empty = assertThrows(InvalidArgumentException.class, () -> TrialFile.readAll(folder));
    assertTrue(empty.getMessage().contains("NCCL4J_TRIALS=" + folder), empty.getMessage());
    Path missing = folder.resolve("none");
    var none = assertThrows(InvalidArgumentException.class, () -> TrialFile.readAll(missing));
    assertTrue(none.problem().contains("there is no " + missing), none.problem());
  }
}
