package org.nccl4j.device.host.kernel.algorithm;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Algorithm;

/**
 * The kernels of one algorithm. The class that implements it for an algorithm is found by its name:
 * {@code TwoShotKernels} for {@code TWO_SHOT}. So an algorithm has its row and this class on the
 * host, and no list names it.
 */
public interface HostAlgorithm {
  /**
   * The kernel of a work with at least two ranks and one element.
   *
   * @throws org.nccl4j.device.InternalErrorException if the algorithm does not have the operation
   */
  Kernel kernel(KernelContext context, CollectiveWork work);

  /**
   * The kernels of an algorithm.
   *
   * @throws ClassNotFoundException if the host device does not have it
   */
  static HostAlgorithm of(Algorithm algorithm) throws ClassNotFoundException {
    String name =
        Arrays.stream(algorithm.name().split("_"))
            .map(word -> word.charAt(0) + word.substring(1).toLowerCase(Locale.ROOT))
            .collect(Collectors.joining());
    Class<?> type = Class.forName(HostAlgorithm.class.getPackageName() + "." + name + "Kernels");
    try {
      return (HostAlgorithm) type.getDeclaredConstructor().newInstance();
    } catch (ReflectiveOperationException e) {
      throw new LinkageError(type + " has no constructor without arguments", e);
    }
  }
}
