/** The CUDA kernels, for programs that use GPUs. */
module org.nccl4j.kernels {
  requires org.nccl4j.device;

  exports org.nccl4j.kernels;

  provides org.nccl4j.device.cuda.driver.KernelImages with
      org.nccl4j.kernels.Kernels;
}
