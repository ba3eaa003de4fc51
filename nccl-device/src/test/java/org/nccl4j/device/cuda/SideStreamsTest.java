package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;

/** Streams beside those of captures, against the recording driver. */
class SideStreamsTest extends AgainstFakeCuda {
  private static SideStreams.Side launch(SideStreams sides, CudaStream stream) {
    SideStreams.Side side = sides.of(stream.open(), stream.isCapturing());
    side.part(stream.open());
    side.join(stream.open());
    return side;
  }

  @Test
  void capturesAtATimeHaveAStreamEach() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream first = (CudaStream) device.createStream();
        CudaStream second = (CudaStream) device.createStream();
        SideStreams sides = new SideStreams(device.gpu())) {
      first.beginCapture();
      second.beginCapture();
      SideStreams.Side ofFirst = launch(sides, first);
      SideStreams.Side ofSecond = launch(sides, second);
      assertNotSame(ofFirst, ofSecond);
      assertSame(ofFirst, launch(sides, first), "a capture keeps its stream");
      assertSame(ofSecond, launch(sides, second));
      assertSame(sides.eager(), sides.of(first.open(), false));
      second.endCapture().close();
      first.endCapture().close();
      assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
    }
  }

  @Test
  void captureAfterCaptureTakesTheSameStream() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream stream = (CudaStream) device.createStream();
        SideStreams sides = new SideStreams(device.gpu())) {
      fake.fakeReset();
      for (int capture = 0; capture < 3; capture++) {
        stream.beginCapture();
        launch(sides, stream);
        stream.endCapture().close();
      }
      long made =
          fake.fakeRecord().lines().filter(call -> call.startsWith("cuStreamCreate")).count();
      assertEquals(1, made);
    }
  }
}
