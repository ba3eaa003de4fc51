package org.nccl4j.device.host.memory;

import com.kenai.jffi.CallContext;
import com.kenai.jffi.CallingConvention;
import com.kenai.jffi.Invoker;
import com.kenai.jffi.LastError;
import com.kenai.jffi.Library;
import com.kenai.jffi.Type;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.LibcFunctions;

/**
 * The memory of a process of this machine, read by its addresses where the kernel allows that. A
 * read allocates nothing, so it goes through jffi's invoker instead of an interface of jnr-ffi,
 * which makes an array for six arguments. One thread at a time.
 */
public final class ProcessMemory {
  /** Error number of a process that has ended. */
  public static final int ESRCH = 3;

  /** Error number of a function that the C library does not have. */
  private static final int ENOSYS = 38;

  private static final Invoker INVOKER = Invoker.getInstance();

  /** Six integers, a signed long as result, and its errno. */
  private static final CallContext CONTEXT = context();

  /** Address of process_vm_readv; 0 where there is none. */
  private static final long FUNCTION = function();

  private final long process;

  /** Two iovecs: that of this process, then that of the other one. */
  private final ByteBuffer iovecs =
      ByteBuffer.allocateDirect(4 * Long.BYTES).order(ByteOrder.nativeOrder());

  private final long iovecsAddress = BufferViews.addressOf(iovecs);

  /** The memory of a process by its number. */
  public ProcessMemory(long process) {
    this.process = process;
  }

  private static CallContext context() {
    Type[] integers = new Type[6];
    Arrays.fill(integers, Type.SINT64);
    return CallContext.getCallContext(
        Type.SINT64, integers, CallingConvention.DEFAULT, /* saveErrno= */ true);
  }

  private static long function() {
    Library library = Library.getCachedInstance(LibcFunctions.LIBRARY, Library.LAZY);
    return library == null ? 0 : library.getSymbolAddress("process_vm_readv");
  }

  /** Reads bytes of the process to an address of this one. 0, or the error number. */
  @HotPath
  public int read(long from, long to, int bytes) {
    if (FUNCTION == 0) {
      return ENOSYS;
    }
    int done = 0;
    while (done < bytes) {
      iovecs.putLong(0, to + done).putLong(Long.BYTES, bytes - done);
      iovecs.putLong(2 * Long.BYTES, from + done).putLong(3 * Long.BYTES, bytes - done);
      long read =
          INVOKER.invokeN6(
              CONTEXT, FUNCTION, process, iovecsAddress, 1, iovecsAddress + 2 * Long.BYTES, 1, 0);
      if (read <= 0) {
        return LastError.getInstance().get();
      }
      done += (int) read;
    }
    return 0;
  }
}
