package org.nccl4j.device.host.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.host.HostDevice;

/** An exception of a function in a stream reaches the user, and the stream goes on. */
class HostFunctionTest {
  @Test
  void whatItThrowsIsTheStreamsErrorOnce() {
    AtomicInteger after = new AtomicInteger();
    try (DeviceStream stream = HostDevice.instance().createStream()) {
      IllegalStateException own = new IllegalStateException("mine");
      stream.launchHostFunction(
          () -> {
            throw own;
          });
      stream.launchHostFunction(after::incrementAndGet);
      InvalidUsageException e = assertThrows(InvalidUsageException.class, stream::synchronize);
      assertEquals(ErrorId.USER_FUNCTION, e.id());
      Throwable cause = e;
      while (cause.getCause() != null) {
        cause = cause.getCause();
      }
      assertSame(own, cause);
      assertEquals(1, after.get());
      stream.synchronize();
      stream.launchHostFunction(
          () -> {
            throw new RemoteException("of this library", "none");
          });
      NcclException ours = assertThrows(NcclException.class, stream::synchronize);
      assertInstanceOf(RemoteException.class, ours);
    }
  }

  /** As Kotlin and Scala throw them, whose functions declare none. */
  @Test
  void aCheckedExceptionIsTheStreamsErrorToo() {
    try (DeviceStream stream = HostDevice.instance().createStream()) {
      stream.launchHostFunction(() -> throwUndeclared(new IOException("checked")));
      NcclException e = assertThrows(NcclException.class, stream::synchronize);
      assertEquals(ErrorId.USER_FUNCTION, e.id());
      stream.synchronize();
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> void throwUndeclared(Throwable e) throws E {
    throw (E) e;
  }
}
