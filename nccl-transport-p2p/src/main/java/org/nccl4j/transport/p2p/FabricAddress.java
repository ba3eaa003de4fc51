package org.nccl4j.transport.p2p;

import java.util.HexFormat;
import org.nccl4j.device.CudaException;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.memory.CudaShareableMemory;

/** An arena as ranks of its clique find it, on any host: by its fabric handle, written out. */
final class FabricAddress {
  private static final String PREFIX = "fabric:";
  private static final int HANDLE_BYTES = 64; // of a CUmemFabricHandle

  private FabricAddress() {}

  /**
   * Returns the address of a rank's arena for others.
   *
   * @throws RemoteException if the driver gives no handle
   */
  static String of(CudaShareableMemory memory) {
    try {
      return PREFIX + HexFormat.of().formatHex(memory.exportFabricHandle());
    } catch (CudaException e) {
      throw new RemoteException(
          ErrorId.PEER_MEMORY,
          "this rank's memory has no fabric handle for the ranks of its clique: " + e.problem(),
          "look for an IMEX channel (/dev/nvidia-caps-imex-channels), or set NCCL_MNNVL_ENABLE=0",
          e);
    }
  }

  /**
   * Maps what a rank told.
   *
   * @param bytes of the arena
   * @throws RemoteException if it cannot be mapped, or the address is none
   */
  static CudaShareableMemory open(CudaDevice device, int rank, String address, long bytes) {
    try {
      byte[] handle =
          HexFormat.of()
              .parseHex(address.startsWith(PREFIX) ? address.substring(PREFIX.length()) : "");
      if (handle.length != HANDLE_BYTES) {
        throw new IllegalArgumentException(handle.length + " bytes");
      }
      return CudaShareableMemory.importFrom(device.gpu(), handle, bytes);
    } catch (CudaException e) {
      throw new RemoteException(
          ErrorId.PEER_MEMORY,
          "rank %d's memory cannot be mapped by its fabric handle: %s".formatted(rank, e.problem()),
          "check the IMEX daemons of both hosts (nvidia-imex-ctl -N), or set NCCL_MNNVL_ENABLE=0 to"
              + " go over the network",
          e);
    } catch (IllegalArgumentException e) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d sent an invalid fabric handle: %s".formatted(rank, e.getMessage()),
          "run the same version of nccl4j, with the same settings, on all ranks",
          e);
    }
  }
}
