package org.nccl4j.device.host.reduce;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.numeric.ElementWriter;

/** The sum of elements that each rank multiplies by its scalar first. */
final class PreMulSum implements Reduction {
  private static final int BLOCK_BYTES = 4096;

  private final DataType type;
  private final Reduction sum;
  private final Reduction product;
  private final ReductionOperator operator;

  /** The scalar over and over, so that multiplying is the usual product of two buffers. */
  private final HostMemory scalars;

  private final ByteBuffer scalar;
  private final HostMemory products;
  private final Operands block = new Operands();

  PreMulSum(DataType type, ReductionOperator operator) {
    if (operator.type() != type) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "a pre-multiplied sum of %s is used for elements of %s"
              .formatted(operator.type().label(), type.label()),
          "make it for the type of the elements");
    }
    this.type = type;
    this.operator = operator;
    this.sum = Reductions.of(type, RedOp.SUM, 1);
    this.product = Reductions.of(type, RedOp.PROD, 1);
    this.scalars = allocateBlock();
    this.products = allocateBlock();
    this.scalar = ByteBuffer.allocate(type.bytes()).order(ByteOrder.nativeOrder());
    if (operator.memory() == null) {
      ElementWriter.put(scalar, operator);
    }
    fill();
  }

  private static HostMemory allocateBlock() {
    ByteBuffer block = ByteBuffer.allocateDirect(BLOCK_BYTES).order(ByteOrder.nativeOrder());
    return new HostMemory(
        null, HostMemory.addressOf(block), BLOCK_BYTES, () -> Reference.reachabilityFence(block));
  }

  private void fill() {
    for (int at = 0; at < BLOCK_BYTES; at += type.bytes()) {
      scalars.write(at, scalar.rewind());
    }
  }

  /** A scalar in memory counts as it is when the operation runs. */
  private void readScalar() {
    if (operator.memory() != null) {
      byte[] before = scalar.array().clone();
      HostMemory.of(operator.memory()).readLaunched(0, scalar.clear());
      if (!Arrays.equals(before, scalar.array())) {
        fill();
      }
    }
  }

  @Override
  public void reduce(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count) {
    sum.reduce(a, aOffset, b, bOffset, target, targetOffset, count);
  }

  @Override
  public boolean widens() {
    return sum.widens();
  }

  /**
   * The own product is rounded like those of other ranks, which have travelled: all ranks get the
   * same bits.
   */
  @Override
  public void reduceAll(Operands operands, HostMemory target, long targetOffset, int count) {
    int most = BLOCK_BYTES / type.bytes();
    for (int done = 0; done < count; done += most) {
      int some = Math.min(most, count - done);
      long at = (long) done * type.bytes();
      block.clear();
      for (int i = 0; i < operands.size(); i++) {
        long offset = operands.offset(i) + at;
        if (operands.isUnprepared(i)) {
          prepare(operands.memory(i), offset, products, 0, some);
          block.add(products, 0);
        } else {
          block.add(operands.memory(i), offset);
        }
      }
      sum.reduceAll(block, target, targetOffset + at, some);
    }
  }

  @Override
  public boolean hasPrepare() {
    return true;
  }

  @Override
  public void prepare(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int count) {
    readScalar();
    int block = BLOCK_BYTES / type.bytes();
    for (int done = 0; done < count; done += block) {
      int some = Math.min(block, count - done);
      long at = (long) done * type.bytes();
      product.reduce(source, sourceOffset + at, scalars, 0, target, targetOffset + at, some);
    }
  }

  @Override
  public boolean hasFinish() {
    return false;
  }

  @Override
  public void finish(HostMemory data, long offset, int count) {
    // Nothing to do: combined elements are the result.
  }
}
