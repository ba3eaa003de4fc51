package org.example.sum;

/**
 * Says which CUDA kernels nccl4j finds, and fails if there is no nccl-kernels, or, with an argument,
 * if there is one. Asks a class that a program cannot name, since it is for a machine without GPUs.
 */
public final class FindKernels {
  private FindKernels() {}

  /** The argument: any, where nccl-kernels was left out. */
  public static void main(String[] arguments) throws ReflectiveOperationException {
    String build =
        Class.forName("org.nccl4j.device.cuda.driver.KernelBuild")
            .getMethod("present")
            .invoke(null)
            .toString();
    if (build.contains("nccl-kernels") == (arguments.length == 0)) {
      throw new AssertionError(build);
    }
    System.out.println(build);
  }
}
