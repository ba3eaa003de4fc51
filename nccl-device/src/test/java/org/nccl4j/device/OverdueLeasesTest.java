package org.nccl4j.device;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.host.HostDevice;

class OverdueLeasesTest {
  private static final long MINUTE = 60_000_000_000L;

  private final OverdueLeases overdue = new OverdueLeases();

  private static Leases used() {
    Leases leases = Leases.freeing(() -> {});
    leases.begin();
    return leases;
  }

  @Test
  void whatIsInUseAMinuteAfterItsCloseIsNamedOnce() {
    Leases leases = used();
    leases.close();
    overdue.add(leases, "4 bytes", 1000);
    assertEquals(List.of(), overdue.overdue(1000));
    assertEquals(List.of(), overdue.overdue(999 + MINUTE));
    List<String> lines = overdue.overdue(1000 + MINUTE);
    assertEquals(1, lines.size());
    assertTrue(lines.get(0).matches("4 bytes: closed at 20.*Z, and not freed.*Group.end\\)"));
    assertEquals(List.of(), overdue.overdue(1000 + 2 * MINUTE));
    leases.end();
  }

  @Test
  void whatWasFreedMeanwhileIsNotNamed() {
    Leases leases = used();
    leases.close();
    overdue.add(leases, "4 bytes", 0);
    leases.end();
    assertEquals(List.of(), overdue.overdue(2 * MINUTE));
  }

  @Test
  void onlySoManyAreRemembered() {
    List<Leases> all = new ArrayList<>();
    for (int i = 0; i < 2 * OverdueLeases.MOST; i++) {
      all.add(used());
      overdue.add(all.get(i), "number " + i, i);
    }
    List<String> lines = overdue.overdue(2 * MINUTE);
    assertEquals(OverdueLeases.MOST, lines.size());
    assertTrue(lines.get(0).startsWith("number " + OverdueLeases.MOST + ":"), lines.get(0));
  }

  @Test
  void memoryAndStreamsThatAreClosedInUseAreRemembered() {
    DeviceMemory memory = HostDevice.instance().allocate(12);
    DeviceStream stream = HostDevice.instance().createStream();
    Leases.begin(memory, null);
    Leases.begin(stream);
    memory.close();
    stream.close();
    List<String> lines = OverdueLeases.ofProcess().overdue(System.nanoTime() + 2 * MINUTE);
    Leases.end(memory, null);
    Leases.of(stream).end();
    assertTrue(lines.stream().anyMatch(line -> line.startsWith("12 bytes at 0x")), lines::toString);
    assertTrue(lines.stream().anyMatch(line -> line.startsWith("a stream of ")), lines::toString);
  }
}
