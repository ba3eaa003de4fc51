package org.nccl4j.device.os;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class ThisProcessTest {
  @Test
  void hasTheNumberThatTheJdkTells() {
    assertEquals(ProcessHandle.current().pid(), ThisProcess.pid());
  }

  @Test
  void hasTheHostsName() throws Exception {
    assertEquals(
        Files.readString(Path.of("/proc/sys/kernel/hostname")).trim(), ThisProcess.hostName());
  }

  /** In a container, /proc may be that of the host. */
  @Test
  void takesTheNumberOfTheInnermostNamespace() {
    assertEquals(4711, ThisProcess.pidOf("Name:\tjava\nPid:\t4711\nNSpid:\t4711\nNSpgid:\t1\n"));
    assertEquals(12, ThisProcess.pidOf("Name:\tjava\nNSpid:\t4711\t12\nNSpgid:\t4711\t12\n"));
    assertEquals(3, ThisProcess.pidOf("NStgid:\t9\t8\t7\nNSpid:\t4711\t12\t3\n"));
  }

  @Test
  void knowsTextsWithoutIt() {
    assertEquals(0, ThisProcess.pidOf(""));
    assertEquals(0, ThisProcess.pidOf("Name:\tjava\nPid:\t4711\n"));
    assertEquals(0, ThisProcess.pidOf("Name:\tjava\nNSpid:\t"));
    assertEquals(0, ThisProcess.pidOf("Name:\tjava\nNSpid:\t\n"));
  }
}
