package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.memory.RdmaMemory;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.shm.OwnedFd;

/** Memory for network cards of one GPU, beside the host's, that another GPU writes. */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class SharedRdmaGpuTest {
  private static final int BYTES = 1_000_003;

  @Test
  void anotherGpuFillsSlotsAndWordsThatTheFirstAndTheProcessorSee() {
    List<CudaDevice> gpus = CudaDevices.probe().list();
    assumeTrue(
        gpus.get(1).gpu().gpuDirect().absence().isEmpty(), gpus.get(1).gpu().gpuDirect().absence());
    byte[] data = new byte[BYTES];
    new Random(7).nextBytes(data);
    try (RdmaMemory memory = RdmaMemory.createShared(gpus.get(1).gpu(), BYTES, BYTES);
        RdmaMemory.Range own = memory.map()) {
      List<OwnedFd> fds = memory.export();
      try (RdmaMemory imported =
              RdmaMemory.importFrom(
                  gpus.get(0).gpu(), memory.shared(), fds.get(0).value(), fds.get(1).value());
          RdmaMemory.Range range = imported.map();
          DeviceMemory source = gpus.get(0).allocate(BYTES);
          CudaStream stream = (CudaStream) gpus.get(0).createStream()) {
        fds.forEach(OwnedFd::close);
        source.write(0, ByteBuffer.wrap(data));
        for (long offset : new long[] {-BYTES, 0}) {
          own.seen(offset, BYTES).fill((byte) 0x77);
          gpus.get(0)
              .gpu()
              .context()
              .run(
                  () ->
                      DriverLibrary.copyAsync(
                          range.boundary() + offset,
                          source.address(),
                          BYTES,
                          stream.handle(),
                          gpus.get(0)));
          stream.synchronize();
          ByteBuffer seen = ByteBuffer.allocate(BYTES);
          own.seen(offset, BYTES).read(0, seen);
          assertArrayEquals(data, seen.array(), "by the other GPU, from " + offset);
        }
        ByteBuffer words = ByteBuffer.allocate(BYTES);
        HostDevice.instance().wrap(own.boundary() - BYTES, BYTES).read(0, words);
        assertArrayEquals(data, words.array(), "by the processor");
      }
    }
  }
}
