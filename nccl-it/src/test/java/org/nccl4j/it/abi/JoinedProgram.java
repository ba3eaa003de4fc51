package org.nccl4j.it.abi;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import jnr.ffi.LibraryLoader;
import jnr.ffi.Pointer;
import jnr.ffi.Runtime;

/** A program in Java that calls a libnccl.so.2 as any native library; prints the sum of 1 and 2. */
public final class JoinedProgram {
  /** Some of the library's functions. Public for jnr-ffi's stubs. */
  public interface Functions {
    int ncclCommInitAll(Pointer comms, int n, Pointer devices);

    int ncclAllReduce(
        Pointer send, Pointer recv, long count, int type, int op, long comm, long stream);

    int ncclGroupStart();

    int ncclGroupEnd();

    int ncclCommDestroy(long comm);

    String ncclGetLastError(long comm);
  }

  private JoinedProgram() {}

  /** Argument: the library. */
  public static void main(String[] arguments) {
    System.setProperty("jnr.ffi.x86asm.enabled", "false");
    Functions nccl = LibraryLoader.create(Functions.class).load(arguments[0]);
    Runtime runtime = Runtime.getRuntime(nccl);
    ByteBuffer memory = ByteBuffer.allocateDirect(64).order(ByteOrder.nativeOrder());
    Pointer comms = Pointer.wrap(runtime, memory.slice(0, 16).order(ByteOrder.nativeOrder()));
    check(nccl, nccl.ncclCommInitAll(comms, 2, null));
    memory.putInt(16, 1).putInt(20, 2);
    check(nccl, nccl.ncclGroupStart());
    for (int rank = 0; rank < 2; rank++) {
      Pointer data = Pointer.wrap(runtime, memory.slice(16 + 4 * rank, 4));
      check(nccl, nccl.ncclAllReduce(data, data, 1, 2, 0, memory.getLong(8 * rank), 0));
    }
    check(nccl, nccl.ncclGroupEnd());
    for (int rank = 0; rank < 2; rank++) {
      check(nccl, nccl.ncclCommDestroy(memory.getLong(8 * rank)));
    }
    System.out.println(memory.getInt(20));
    System.exit(0);
  }

  private static void check(Functions nccl, int result) {
    if (result != 0) {
      throw new AssertionError(nccl.ncclGetLastError(0));
    }
  }
}
