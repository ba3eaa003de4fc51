package org.nccl4j.it.abi;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.numeric.ElementWriter;

/** The operators that ncclRedOpCreatePreMulSum has created, by number. Any thread. */
final class Operators {
  private static final int DEVICE = 0; // ncclScalarDevice

  private record Owned(int number, RankHandle owner, ReductionOperator operator) {}

  private static final Map<Integer, Owned> ALL = new ConcurrentHashMap<>();

  /** The one that was found last, without a boxed number; null if it was destroyed. */
  private static volatile Owned last;

  /** The first number behind those of NCCL's own operators. */
  static final int FIRST = RedOp.values().length;

  private static final AtomicInteger NEXT = new AtomicInteger(FIRST);

  private Operators() {}

  /**
   * Creates an operator.
   *
   * @param scalar the bits of an element, or its address on the device
   * @param residence an ncclScalarResidence_t
   * @return the number of the operator
   */
  static int add(RankHandle owner, DataType type, long scalar, int residence) {
    owner.communicator();
    ReductionOperator operator =
        residence == DEVICE
            ? ReductionOperator.preMulSum(type, onDevice(owner, type, scalar))
            : ElementWriter.preMulSum(type, scalar);
    int number = NEXT.getAndUpdate(Operators::after);
    while (ALL.putIfAbsent(number, new Owned(number, owner, operator)) != null) {
      number = NEXT.getAndUpdate(Operators::after);
    }
    return number;
  }

  /** Numbers come again as late as can be: programs create an operator for each operation. */
  static int after(int number) {
    return number == Integer.MAX_VALUE ? FIRST : number + 1;
  }

  private static DeviceMemory onDevice(RankHandle owner, DataType type, long address) {
    return owner.place().memory().of(address, type.bytes());
  }

  static ReductionOperator find(RankHandle owner, int number) {
    Owned known = last;
    Owned found = known != null && known.number == number ? known : ALL.get(number);
    if (found == null || found.owner != owner) {
      throw notThere(number);
    }
    last = found;
    return found.operator;
  }

  static void remove(RankHandle owner, int number) {
    Owned found = ALL.get(number);
    if (found == null || found.owner != owner || !ALL.remove(number, found)) {
      throw notThere(number);
    }
    last = null;
  }

  private static RuntimeException notThere(int number) {
    return Wrong.argument(
        "operator %d is not one of this communicator".formatted(number),
        "pass ncclSum to ncclAvg, or an operator that ncclRedOpCreatePreMulSum gave for the"
            + " communicator and that is not destroyed");
  }

  /** Forgets a communicator's operators. */
  static void forget(RankHandle owner) {
    ALL.values().removeIf(owned -> owned.owner == owner);
    last = null;
  }
}
