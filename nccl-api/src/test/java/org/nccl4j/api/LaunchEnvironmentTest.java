package org.nccl4j.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;

final class LaunchEnvironmentTest {
  private static Map<String, String> variables(String text) {
    Map<String, String> variables = new TreeMap<>();
    for (String pair : text.split(" ")) {
      variables.put(pair.split("=")[0], pair.split("=")[1]);
    }
    return variables;
  }

  @ParameterizedTest
  @CsvSource({
    "NCCL4J_RANK=1 NCCL4J_NRANKS=4 NCCL4J_LOCAL_RANK=1 RANK=7 WORLD_SIZE=8, nccl run, 1, 4, 1",
    "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 SLURM_PROCID=0 SLURM_NTASKS=1, torchrun, 3, 8, 1",
    "RANK=3 WORLD_SIZE=8, torchrun, 3, 8, 3",
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0, Open MPI, 2, 3, 0",
    "SLURM_PROCID=5 SLURM_NTASKS=6 SLURM_LOCALID=2, Slurm, 5, 6, 2",
    "JOB_COMPLETION_INDEX=2 NCCL4J_NRANKS=3 NCCL4J_LOCAL_RANK=0, Kubernetes, 2, 3, 0"
  })
  void launcherIsRecognized(String text, String launcher, int rank, int nRanks, int localRank) {
    LaunchEnvironment found = LaunchEnvironment.of(variables(text)).orElseThrow();
    assertEquals(launcher, found.launcher());
    assertEquals(rank, found.rank());
    assertEquals(nRanks, found.nRanks());
    assertEquals(localRank, found.localRank());
    assertEquals(Optional.empty(), found.uniqueId());
  }

  @Test
  void noLauncher() {
    assertEquals(Optional.empty(), LaunchEnvironment.of(Map.of("HOME", "/root")));
  }

  @Test
  void withoutLauncherTheErrorSaysWhatToSet() {
    InvalidUsageException e =
        assertThrows(
            InvalidUsageException.class, () -> LaunchEnvironment.required(Map.of("HOME", "/root")));
    assertTrue(e.problem().contains("OMPI_COMM_WORLD_RANK"), e.problem());
    assertTrue(e.remedy().contains("set NCCL4J_RANK, NCCL4J_NRANKS and NCCL_COMM_ID"), e.remedy());
    assertEquals(1, LaunchEnvironment.required(variables("RANK=1 WORLD_SIZE=2")).rank());
  }

  @Test
  void meetingPoint() {
    Map<String, String> variables =
        variables("RANK=0 WORLD_SIZE=1 MASTER_ADDR=node7 MASTER_PORT=29500");
    assertEquals(
        Optional.of("node7:29500"), LaunchEnvironment.of(variables).orElseThrow().meetingPoint());
  }

  @ParameterizedTest
  @CsvSource({
    "RANK=0, WORLD_SIZE is not set",
    "NCCL4J_RANK=0, NCCL4J_NRANKS is not set",
    "NCCL4J_RANK=0 NCCL4J_NRANKS=1 NCCL4J_UNIQUE_ID=foo, NCCL4J_UNIQUE_ID is \"foo\"",
    "NCCL4J_NRANKS=4, 'NCCL4J_NRANKS is set, but the rank'",
    "JOB_COMPLETION_INDEX=1, NCCL4J_NRANKS is not set",
    "RANK=two WORLD_SIZE=4, RANK is \"two\"",
    "RANK=4 WORLD_SIZE=4, RANK is \"4\"",
    "RANK=-1 WORLD_SIZE=4, RANK is \"-1\"",
    "SLURM_PROCID=0 SLURM_NTASKS=0, SLURM_NTASKS is \"0\""
  })
  void wrongVariableIsNamed(String text, String message) {
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> LaunchEnvironment.of(variables(text)));
    assertTrue(e.problem().startsWith(message), e.problem());
  }
}
