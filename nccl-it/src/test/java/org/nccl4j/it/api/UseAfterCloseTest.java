package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.Registration;
import org.nccl4j.api.Window;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidUsageException;

/** Using a closed object is an error, except for queries and closing again. */
@Timeout(600)
class UseAfterCloseTest {
  /** Calls that a closed communicator allows. */
  private static final Set<String> HARMLESS = Set.of("abort", "close", "finish", "revoke");

  /** Queries of a communicator, which answer after its close too. */
  private static final Set<String> QUERIES =
      Set.of(
          "asyncError",
          "config",
          "costTableKey",
          "chosenAlgorithm",
          "chosenAlgorithmInWindows",
          "device",
          "explain",
          "isSuspended",
          "lastBlocks",
          "lsaTeam",
          "memory",
          "nRanks",
          "name",
          "rank",
          "toString",
          "transports");

  private final List<String> wrong = new ArrayList<>();

  private void everyCall(PublicCalls calls, Class<?> type, Object closed, Set<String> harmless) {
    for (PublicCalls.Call call : calls.of(type, closed)) {
      if (!Modifier.isStatic(call.method().getModifiers())) {
        check(type.getSimpleName() + "." + call, call, harmless.contains(call.method().getName()));
      }
    }
  }

  private void check(String name, PublicCalls.Call call, boolean harmless) {
    String said = "returns";
    try {
      call.run();
    } catch (InvalidUsageException e) {
      said = e.getMessage();
    } catch (Throwable e) {
      said = e.toString();
    }
    boolean refused = said.contains("close") && said.contains("Remedy: ");
    if (harmless ? !said.equals("returns") : !refused) {
      wrong.add(name + ": " + said);
    }
  }

  @Test
  void communicators() throws Exception {
    Ranks ranks = new Ranks(2);
    List<Window> windows = new ArrayList<>();
    List<Registration> registrations = new ArrayList<>();
    try (DeviceMemory memory = Devices.host().memAlloc(4096);
        DeviceStream stream = Devices.host().createStream()) {
      Group.run(() -> ranks.communicators.forEach(c -> windows.add(c.registerWindow(memory))));
      ranks.communicators.forEach(c -> registrations.add(c.register(memory)));
      ranks.close();
      PublicCalls calls = new PublicCalls(1, memory, stream);
      calls.put(ranks.communicators.get(0), windows.get(0), registrations.get(0));
      Set<String> harmless = new HashSet<>(HARMLESS);
      harmless.addAll(QUERIES);
      everyCall(calls, Communicator.class, ranks.communicators.get(0), harmless);
      Communicator comm = ranks.communicators.get(0);
      Consumer<Communicator> inGroup = c -> c.recv(memory, 16, DataType.FLOAT32, 1, stream);
      InvalidUsageException e =
          assertThrows(InvalidUsageException.class, () -> Group.run(() -> inGroup.accept(comm)));
      assertTrue(e.getMessage().contains("closed communicator"), e.getMessage());
    }
    assertEquals(List.of(), wrong);
  }

  @Test
  void streamsEventsAndMemory() {
    DeviceMemory memory = Devices.host().allocate(64);
    DeviceStream stream = Devices.host().createStream();
    DeviceEvent event = Devices.host().createEvent();
    PublicCalls calls =
        new PublicCalls(0, Devices.host().allocate(64), Devices.host().createStream());
    calls.put(Devices.host().createEvent());
    memory.close();
    stream.close();
    event.close();
    everyCall(
        calls,
        DeviceStream.class,
        stream,
        Set.of(
            "captureNumber",
            "close",
            "device",
            "grow",
            "isCapturing",
            "isIdle",
            "isOfCallingThread",
            "startNow",
            "synchronize",
            "toString"));
    everyCall(calls, DeviceEvent.class, event, Set.of("close"));
    everyCall(
        calls,
        DeviceMemory.class,
        memory,
        Set.of("address", "close", "device", "isOpen", "isSameAs", "size", "toString"));
    assertEquals(List.of(), wrong);
  }

  @Test
  void copiesOfClosedMemory() {
    try (DeviceStream stream = Devices.host().createStream();
        DeviceMemory open = Devices.host().allocate(8)) {
      DeviceMemory closed = Devices.host().allocate(8);
      closed.close();
      for (Runnable copy :
          List.<Runnable>of(() -> stream.copy(open, closed), () -> stream.copy(closed, open))) {
        InvalidUsageException e = assertThrows(InvalidUsageException.class, copy::run);
        assertTrue(e.getMessage().contains("after close"), e.getMessage());
      }
    }
  }

  @Test
  void aWindowAfterItsCommunicator() throws Exception {
    try (DeviceMemory memory = Devices.host().memAlloc(64)) {
      Ranks ranks = new Ranks(1);
      Window window = ranks.communicators.get(0).registerWindow(memory);
      ranks.close();
      assertTrue(!window.isRegistered());
      for (Runnable use : List.<Runnable>of(() -> window.peer(0), window::deviceHandle)) {
        InvalidUsageException e = assertThrows(InvalidUsageException.class, use::run);
        assertTrue(e.getMessage().contains("deregistered"), e.getMessage());
      }
    }
  }
}
