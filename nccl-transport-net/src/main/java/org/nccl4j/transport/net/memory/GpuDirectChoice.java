package org.nccl4j.transport.net.memory;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.settings.InfiniBandSettings;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.driver.GpuDirect;

/**
 * Decides whether a network card accesses the memory of a GPU (GPUDirect RDMA).
 *
 * @param ways by which it may be told of the memory, best first; empty if it does not
 * @param reason why, or why not
 */
public record GpuDirectChoice(List<NetDevice.Pointers> ways, String reason) {
  private static final Setting<Boolean> DMA_BUFS = InfiniBandSettings.NCCL_DMABUF_ENABLE;

  /**
   * Returns the choice for slots of connections, which need more than users' buffers do.
   *
   * @throws InvalidArgumentException if a setting has a wrong value
   */
  static GpuDirectChoice ofSlots(
      GpuDirect gpu, NetDevice card, SettingValues settings, Support near) {
    GpuDirectChoice choice = of(gpu, card, settings, near);
    return choice.possible() && !gpu.slotAbsence().isEmpty() ? no(gpu.slotAbsence()) : choice;
  }

  /**
   * Returns the choice that the settings, the card and the topology give together.
   *
   * @param gpu what the GPU offers
   * @param card which card
   * @param near what the topology and the settings of distance say
   * @throws InvalidArgumentException if a setting has a wrong value
   */
  public static GpuDirectChoice of(
      GpuDirect gpu, NetDevice card, SettingValues settings, Support near) {
    boolean dmaBufs = settings.get(DMA_BUFS);
    if (!gpu.absence().isEmpty()) {
      return no(gpu.absence());
    }
    if (card.pointers().size() == 1) {
      return no(
          card.name()
              + " uses only memory of the host (InfiniBand and RoCE use a GPU's with"
              + " nvidia_peermem loaded, or with dma-bufs)");
    }
    List<NetDevice.Pointers> ways = new ArrayList<>();
    if (dmaBufs && gpu.dmaBufs() && card.pointers().contains(NetDevice.Pointers.DMA_BUF)) {
      ways.add(NetDevice.Pointers.DMA_BUF);
    }
    if (gpu.peerMemory() && card.pointers().contains(NetDevice.Pointers.CUDA)) {
      ways.add(NetDevice.Pointers.CUDA);
    }
    if (ways.isEmpty()) {
      return no(
          !dmaBufs && gpu.dmaBufs()
              ? DMA_BUFS.name() + "=0 forbids dma-bufs, and nvidia_peermem is not loaded"
              : "the GPU and %s have neither dma-bufs nor nvidia_peermem in common"
                  .formatted(card.name()));
    }
    if (!near.possible()) {
      return no(near.reason());
    }
    String by = ways.get(0) == NetDevice.Pointers.DMA_BUF ? "by dma-buf" : "by nvidia_peermem";
    return new GpuDirectChoice(List.copyOf(ways), by + ", " + near.reason());
  }

  /** Returns the choice for cards that take turns with the memory: what all of them can. */
  static GpuDirectChoice ofAll(List<GpuDirectChoice> cards) {
    GpuDirectChoice first = cards.get(0);
    List<NetDevice.Pointers> ways = new ArrayList<>(first.ways);
    for (GpuDirectChoice card : cards) {
      if (!card.possible()) {
        return card;
      }
      ways.retainAll(card.ways);
    }
    return ways.isEmpty()
        ? no("the NICs have neither dma-bufs nor nvidia_peermem in common")
        : new GpuDirectChoice(List.copyOf(ways), first.reason);
  }

  static GpuDirectChoice no(String reason) {
    return new GpuDirectChoice(List.of(), reason);
  }

  /** Returns how data move between card and GPU, as the end of a sentence. */
  public String describe() {
    return possible()
        ? "directly (%s)".formatted(reason)
        : "through memory of the host, because " + reason;
  }

  boolean possible() {
    return !ways.isEmpty();
  }
}
