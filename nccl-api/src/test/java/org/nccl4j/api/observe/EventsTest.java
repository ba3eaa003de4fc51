package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import jdk.jfr.FlightRecorder;
import jdk.jfr.Recording;
import org.junit.jupiter.api.Test;

class EventsTest {
  /** Has the events once more, of which no other test has made any. */
  private static final class OwnEvents extends ClassLoader {
    OwnEvents() {
      super(Events.class.getClassLoader());
    }

    @Override
    protected synchronized Class<?> loadClass(String name, boolean resolve)
        throws ClassNotFoundException {
      if (!name.startsWith(Events.class.getName())) {
        return super.loadClass(name, resolve);
      }
      Class<?> loaded = findLoadedClass(name);
      return loaded == null ? define(name) : loaded;
    }

    private Class<?> define(String name) {
      String file = name.substring(name.lastIndexOf('.') + 1) + ".class";
      try (InputStream in = Events.class.getResourceAsStream(file)) {
        byte[] bytes = in.readAllBytes();
        return defineClass(name, bytes, 0, bytes.length);
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }

    boolean hasLoaded(Class<?> event) {
      return findLoadedClass(event.getName()) != null;
    }
  }

  /** A class of events that is first used while the recording starts would never be enabled. */
  @Test
  void noEventsAreMadeBeforeARecordingRuns() throws Throwable {
    OwnEvents own = new OwnEvents();
    Class<?> events = own.loadClass(Events.class.getName());
    MethodHandle areRecorded =
        MethodHandles.privateLookupIn(events, MethodHandles.lookup())
            .findStatic(events, "areRecorded", MethodType.methodType(boolean.class));
    FlightRecorder.getFlightRecorder();

    try (Recording recording = new Recording()) {
      assertFalse((boolean) areRecorded.invokeExact());
      assertFalse(own.hasLoaded(Events.Operation.class));

      recording.enable(Events.Operation.class.getName());
      recording.start();
      assertTrue((boolean) areRecorded.invokeExact());
    }
    assertTrue((boolean) areRecorded.invokeExact(), "any recording that starts now has all events");
    assertTrue(own.hasLoaded(Events.Progress.class));
  }
}
