package org.nccl4j.transport.net.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.api.spi.NetDevice.Pointers.CUDA;
import static org.nccl4j.api.spi.NetDevice.Pointers.DMA_BUF;
import static org.nccl4j.api.spi.NetDevice.Pointers.HOST;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.cuda.driver.GpuDirect;

/** GPUDirect needs the consent of card, GPU and user; the log names what refuses. */
class GpuDirectChoiceTest {
  private static final GpuDirect BOTH = new GpuDirect("", "", true, true);
  private static final Support NEAR = Support.yes("the path is PIX");

  private static GpuDirectChoice choose(
      GpuDirect gpu, Set<NetDevice.Pointers> pointers, String dmaBufs, Support near) {
    NetDevice card = new NetDevice("mlx5_0:1", "", 1, 1, 400_000, 1, pointers, 1, 1 << 30);
    Map<String, String> settings =
        dmaBufs.isEmpty() ? Map.of() : Map.of("NCCL_DMABUF_ENABLE", dmaBufs);
    return GpuDirectChoice.of(gpu, card, name -> Optional.ofNullable(settings.get(name)), near);
  }

  private static void assertNo(GpuDirectChoice choice, String why) {
    assertFalse(choice.possible());
    assertTrue(choice.reason().contains(why), choice.reason());
  }

  @Test
  void dmaBufsComeFirst() {
    GpuDirectChoice choice = choose(BOTH, Set.of(HOST, CUDA, DMA_BUF), "", NEAR);
    assertEquals(List.of(DMA_BUF, CUDA), choice.ways());
    assertEquals("by dma-buf, the path is PIX", choice.reason());
  }

  @Test
  void whatOneOfThemLacksIsNotUsed() {
    assertEquals(List.of(CUDA), choose(BOTH, Set.of(HOST, CUDA), "1", NEAR).ways());
    assertEquals(List.of(DMA_BUF), choose(BOTH, Set.of(HOST, DMA_BUF), "1", NEAR).ways());
    GpuDirect old = new GpuDirect("", "", true, false);
    GpuDirectChoice choice = choose(old, Set.of(HOST, CUDA, DMA_BUF), "", NEAR);
    assertEquals(List.of(CUDA), choice.ways());
    assertEquals("by nvidia_peermem, the path is PIX", choice.reason());
    assertNo(choose(old, Set.of(HOST, DMA_BUF), "", NEAR), "in common");
  }

  /** Channels take turns with the cards, and all of their slots are one memory. */
  @Test
  void cardsUseWhatAllOfThemCan() {
    GpuDirectChoice both = choose(BOTH, Set.of(HOST, CUDA, DMA_BUF), "", NEAR);
    GpuDirectChoice peerMemory = choose(BOTH, Set.of(HOST, CUDA), "", NEAR);
    GpuDirectChoice dmaBufs = choose(BOTH, Set.of(HOST, DMA_BUF), "", NEAR);
    GpuDirectChoice none = choose(BOTH, Set.of(HOST), "", NEAR);
    assertEquals(both, GpuDirectChoice.ofAll(List.of(both, both)));
    assertEquals(List.of(CUDA), GpuDirectChoice.ofAll(List.of(both, peerMemory)).ways());
    assertNo(GpuDirectChoice.ofAll(List.of(peerMemory, dmaBufs)), "in common");
    assertEquals(none, GpuDirectChoice.ofAll(List.of(both, none)));
  }

  @Test
  void dmaBufsCanBeForbidden() {
    assertEquals(List.of(CUDA), choose(BOTH, Set.of(HOST, CUDA, DMA_BUF), " 0 ", NEAR).ways());
    assertNo(choose(BOTH, Set.of(HOST, DMA_BUF), "0", NEAR), "NCCL_DMABUF_ENABLE=0");
    assertThrows(InvalidArgumentException.class, () -> choose(BOTH, Set.of(HOST), "perhaps", NEAR));
  }

  @Test
  void whoSaysNoIsQuoted() {
    assertNo(
        choose(
            new GpuDirect("it is too old", "it is too old", false, false),
            Set.of(HOST, CUDA),
            "",
            NEAR),
        "it is too old");
    assertNo(choose(BOTH, Set.of(HOST), "", NEAR), "mlx5_0:1 uses only memory of the host");
    assertNo(choose(BOTH, Set.of(HOST, CUDA), "", Support.no("it is far")), "it is far");
  }
}
