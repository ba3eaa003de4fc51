package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * A user's function, called with views of memory.
 *
 * @param type of the elements, for the function
 * @param bytes of an element
 */
record UserFunction(ReductionOperator operator, DataType type, int bytes) {
  /** Combines count elements, which lie in one window of each memory. */
  void combine(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count) {
    try {
      operator
          .combiner()
          .combine(
              view(a, aOffset, count),
              view(b, bOffset, count),
              view(target, targetOffset, count),
              count,
              type);
    } catch (VirtualMachineError e) {
      throw e;
    } catch (Throwable e) { // some languages throw checked exceptions anywhere
      throw new InvalidUsageException(
          ErrorId.USER_FUNCTION,
          "the user-supplied reduction %s failed on %d elements of %s (%s)"
              .formatted(operator.name(), count, elements(), e),
          "correct the function",
          e);
    }
  }

  private String elements() {
    return operator.isOfStructs() ? bytes + " bytes" : type.label();
  }

  private ByteBuffer view(HostMemory memory, long offset, int count) {
    return memory
        .window(offset)
        .slice(memory.index(offset), count * bytes)
        .order(ByteOrder.nativeOrder());
  }
}
