/** The CUDA device and the host device: memory, streams, events and kernels. */
module org.nccl4j.device {
  requires transitive org.nccl4j.topo;
  // For those who pass handles of JCuda: not needed otherwise.
  requires static transitive jcuda;
  requires org.jnrproject.ffi;
  requires org.jnrproject.jffi;
  requires org.objectweb.asm;
  // Needed by jffi, which has no module descriptor to say so.
  requires java.logging;
  requires jdk.unsupported;

  exports org.nccl4j.device;
  // The stubs that jnr-ffi makes live in an unnamed module, which no qualified export can name.
  exports org.nccl4j.device.bind;
  exports org.nccl4j.device.connection;
  exports org.nccl4j.device.cuda;
  exports org.nccl4j.device.cuda.driver to
      org.nccl4j.api,
      org.nccl4j.it,
      org.nccl4j.kernels,
      org.nccl4j.transport.net,
      org.nccl4j.transport.p2p;
  exports org.nccl4j.device.cuda.memory to
      org.nccl4j.api,
      org.nccl4j.transport.net,
      org.nccl4j.transport.p2p;
  exports org.nccl4j.device.cuda.nvml to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.device.host to
      org.nccl4j.api,
      org.nccl4j.it,
      org.nccl4j.transport.net,
      org.nccl4j.transport.nvls;
  exports org.nccl4j.device.kernel to
      org.nccl4j.api,
      org.nccl4j.it,
      org.nccl4j.transport.net,
      org.nccl4j.transport.nvls;
  exports org.nccl4j.device.numeric to
      org.nccl4j.api,
      org.nccl4j.it;
  exports org.nccl4j.device.os to
      org.nccl4j.api,
      org.nccl4j.it,
      org.nccl4j.transport.net;
  exports org.nccl4j.device.shm to
      org.nccl4j.api,
      org.nccl4j.it,
      org.nccl4j.transport.net,
      org.nccl4j.transport.p2p;
  exports org.nccl4j.device.support to
      org.nccl4j.api,
      org.nccl4j.it,
      org.nccl4j.testkit,
      org.nccl4j.transport.net,
      org.nccl4j.transport.nvls,
      org.nccl4j.transport.p2p;
  exports org.nccl4j.device.symmetric to
      org.nccl4j.api,
      org.nccl4j.transport.nvls;

  uses org.nccl4j.device.cuda.driver.KernelImages;
  uses org.nccl4j.device.cuda.driver.StartupHook;
}
