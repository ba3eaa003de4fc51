package org.nccl4j.it.loader;

import static jcuda.driver.JCudaDriver.cuCtxSetCurrent;
import static jcuda.driver.JCudaDriver.cuDeviceGet;
import static jcuda.driver.JCudaDriver.cuDevicePrimaryCtxRetain;
import static jcuda.driver.JCudaDriver.cuInit;
import static jcuda.driver.JCudaDriver.cuMemAlloc;
import static jcuda.driver.JCudaDriver.cuMemFree;
import static jcuda.driver.JCudaDriver.cuMemcpyDtoHAsync;
import static jcuda.driver.JCudaDriver.cuMemcpyHtoDAsync;
import static jcuda.driver.JCudaDriver.cuStreamCreate;
import static jcuda.driver.JCudaDriver.cuStreamDestroy;
import static jcuda.driver.JCudaDriver.cuStreamSynchronize;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import jcuda.Pointer;
import jcuda.Sizeof;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUstream;
import jcuda.driver.JCudaDriver;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;

/**
 * A program of JCuda, with its exceptions enabled, whose memory and streams two ranks use. Machines
 * with one GPU have both ranks on it.
 */
public final class JcudaProgram {
  private static final int RANKS = 2;
  private static final int COUNT = 1 << 20;
  private static final long BYTES = (long) COUNT * Sizeof.FLOAT;

  private final CUcontext context = new CUcontext();
  private final CUstream stream = new CUstream();
  private final CUdeviceptr data = new CUdeviceptr();
  private final float[] numbers = new float[COUNT];

  private JcudaProgram(CudaDevice gpu, int ordinal, float value) {
    CUdevice device = new CUdevice();
    cuDeviceGet(device, ordinal);
    cuDevicePrimaryCtxRetain(context, device);
    cuCtxSetCurrent(context);
    cuStreamCreate(stream, 0);
    cuMemAlloc(data, BYTES);
    Arrays.fill(numbers, value);
    cuMemcpyHtoDAsync(data, Pointer.to(numbers), BYTES, stream);
    cuStreamSynchronize(stream);
    System.out.println("rank on " + gpu);
  }

  /** No arguments. Prints the loader, and how many of both ranks' sums are right. */
  public static void main(String[] arguments) {
    JCudaDriver.setExceptionsEnabled(true);
    cuInit(0);
    List<CudaDevice> gpus = Devices.cuda().list();
    List<Device> devices = new ArrayList<>();
    List<JcudaProgram> programs = new ArrayList<>();
    for (int rank = 0; rank < RANKS; rank++) {
      int ordinal = rank % gpus.size();
      devices.add(gpus.get(ordinal));
      programs.add(new JcudaProgram(gpus.get(ordinal), ordinal, rank + 1));
    }
    List<Communicator> ranks = Communicator.initAll(devices);
    List<CudaStream> streams = new ArrayList<>();
    Group.run(
        () -> {
          for (int rank = 0; rank < RANKS; rank++) {
            CudaDevice gpu = (CudaDevice) devices.get(rank);
            JcudaProgram program = programs.get(rank);
            streams.add(gpu.wrap(program.stream));
            DeviceMemory memory = gpu.wrap(program.data, BYTES);
            ranks
                .get(rank)
                .allReduce(memory, memory, COUNT, DataType.FLOAT32, RedOp.SUM, streams.get(rank));
          }
        });
    long right = programs.stream().mapToLong(JcudaProgram::read).sum();
    streams.forEach(CudaStream::close);
    ranks.forEach(Communicator::close);
    programs.forEach(JcudaProgram::free);
    System.out.println("loaded by " + JcudaProgram.class.getClassLoader().getClass().getName());
    System.out.println("right: " + right + " of " + (long) RANKS * COUNT);
  }

  /** Waits and copies by JCuda; returns the number of right sums. */
  private long read() {
    cuCtxSetCurrent(context);
    cuMemcpyDtoHAsync(Pointer.to(numbers), data, BYTES, stream);
    cuStreamSynchronize(stream);
    long right = 0;
    for (float each : numbers) {
      right += each == RANKS * (RANKS + 1) / 2 ? 1 : 0;
    }
    return right;
  }

  private void free() {
    cuCtxSetCurrent(context);
    cuMemFree(data);
    cuStreamDestroy(stream);
  }
}
