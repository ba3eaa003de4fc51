package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Protocol;

/** Offers of windows before large messages, with the recording driver. */
class OfferedPlansTest extends AgainstFakeCuda {
  private static final int BYTES = 2 << 20;

  @Test
  void aReceiverOffersItsPlaceAndASenderSeesTheReceiversStretch() {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofSeconds(3))) {
      assertEquals(0, told(ranks, send()), "no space yet");
      assertEquals(KernelLayout.NO_OFFER, told(ranks, receive(null)));
      try (DirectRanks windows = new DirectRanks(ranks, BYTES + 64)) {
        WindowView window = windows.recvs.get(0);
        long stretch = window.peers().get(1).address() - window.peers().get(0).address();
        long place = told(ranks, receive(windows));
        long space = told(ranks, send()) - stretch;
        assertEquals(window.peers().get(0).address() + 48, space + place);
      }
    }
  }

  private static P2pWork send() {
    return new P2pWork(P2pWork.Kind.SEND, 1, null, 0, BYTES, Protocol.SIMPLE, P2pWork.Offer.NONE);
  }

  private static P2pWork receive(DirectRanks windows) {
    return new P2pWork(
        P2pWork.Kind.RECV,
        1,
        windows == null ? null : windows.recv.get(0),
        48,
        BYTES,
        Protocol.SIMPLE,
        windows == null ? P2pWork.Offer.NONE : new P2pWork.Offer(windows.recvs.get(0)));
  }

  /** The plan's offers of windows. */
  private static long told(GpuRanks ranks, P2pWork work) {
    var plan = (CudaKernelPlan) ranks.communicators.get(0).prepare(List.of(work));
    Offheap arguments = plan.arguments();
    int at = KernelLayout.INLINE_WORK_TABLE;
    assertEquals(1, arguments.bytes().getShort(at + KernelLayout.WORK_OFFERED));
    return arguments.bytes().getLong(at + KernelLayout.WORK_TARGET);
  }
}
