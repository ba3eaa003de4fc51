package org.nccl4j.device.cuda;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Arrays;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DriverLibrary;

/**
 * A kernel that computes and touches no memory, to measure how communication and computation slow
 * each other down. Each block has a multiprocessor of its own, as those of large matrix products
 * do, and takes about 50 microseconds. Used by one thread.
 */
public final class ComputingKernel {
  private static final String FILE = "compute-ptx.txt";
  private static final int THREADS = 256;
  private static final int ROUNDS = 650; // 128 cycles each
  private static final int MOST_SHARED =
      97; // CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
  private static final int DYNAMIC_SHARED = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
  private static final int CONFIG_BYTES = 56; // CUlaunchConfig
  private static final int CONFIG_SHARED = 24;
  private static final int CONFIG_STREAM = 32;

  private final CudaDevice device;
  private final long function;
  private final Offheap config = new Offheap(CONFIG_BYTES);
  private final Offheap arguments = new Offheap(2 * Long.BYTES);

  /** The kernel, loaded on a device. */
  public ComputingKernel(CudaDevice device) {
    this.device = Arguments.notNull(device, "device");
    int shared = device.gpu().attribute(MOST_SHARED);
    function = device.gpu().context().get(() -> load(device, shared));
    config.putInt(4, 1).putInt(8, 1).putInt(12, THREADS).putInt(16, 1).putInt(20, 1);
    config.putInt(CONFIG_SHARED, shared);
    arguments.putLong(0, arguments.address() + Long.BYTES);
    arguments.putInt(Long.BYTES, ROUNDS);
  }

  private static long load(CudaDevice device, int shared) {
    long module = CudaLibrary.loadModule(text(), FILE, device);
    long made = CudaLibrary.function(module, "nccl4j_compute", device);
    CudaLibrary.setFunctionAttribute(made, DYNAMIC_SHARED, shared, device);
    return made;
  }

  /** The PTX, which the driver compiles, with the zero that ends it. */
  private static byte[] text() {
    try (InputStream in = ComputingKernel.class.getResourceAsStream(FILE)) {
      byte[] text = in.readAllBytes();
      return Arrays.copyOf(text, text.length + 1);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Launches blocks, at least one. */
  public void launch(CudaStream stream, int blocks) {
    config.putInt(0, blocks);
    config.putLong(CONFIG_STREAM, stream.handle());
    device
        .gpu()
        .context()
        .run(() -> DriverLibrary.launch(config.address(), function, arguments.address(), device));
  }
}
