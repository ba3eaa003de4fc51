package org.nccl4j.device.host.memory;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.device.bind.NativeNames;

/**
 * The memory of a process of this machine, read by its addresses where the kernel allows that. A
 * read allocates nothing, so it calls the function by its address: with an interface of jnr-ffi six
 * arguments are an array. One thread at a time.
 */
public final class ProcessMemory {
  /** Error number of a process that has ended. */
  public static final int ESRCH = 3;

  /** Error number of an address that cannot be read. */
  static final int EFAULT = 14;

  /** Error number of a function that the C library does not have. */
  private static final int ENOSYS = 38;

  /** Address of process_vm_readv; 0 where there is none. */
  private static final long FUNCTION = NativeFunction.find(NativeNames.LIBC, "process_vm_readv");

  private final long process;
  private final long function;

  /** Two iovecs: that of this process, then that of the other one. */
  private final ByteBuffer iovecs =
      ByteBuffer.allocateDirect(4 * Long.BYTES).order(ByteOrder.nativeOrder());

  private final long iovecsAddress = BufferViews.addressOf(iovecs);

  /** The memory of a process by its number. */
  public ProcessMemory(long process) {
    this(process, FUNCTION);
  }

  /** The same, read by another function of process_vm_readv's form. */
  ProcessMemory(long process, long function) {
    this.process = process;
    this.function = function;
  }

  /** Reads bytes of the process to an address of this one. 0, or the error number. */
  @HotPath
  public int read(long from, long to, int bytes) {
    if (function == 0) {
      return ENOSYS;
    }
    int done = 0;
    while (done < bytes) {
      iovecs.putLong(0, to + done).putLong(Long.BYTES, bytes - done);
      iovecs.putLong(2 * Long.BYTES, from + done).putLong(3 * Long.BYTES, bytes - done);
      long read =
          NativeFunction.call(
              function, process, iovecsAddress, 1, iovecsAddress + 2 * Long.BYTES, 1, 0);
      if (read <= 0) {
        // A call that has read nothing has not failed, and leaves the errno of an earlier one.
        return read == 0 ? EFAULT : NativeLibrary.errno();
      }
      done += (int) read;
    }
    return 0;
  }
}
