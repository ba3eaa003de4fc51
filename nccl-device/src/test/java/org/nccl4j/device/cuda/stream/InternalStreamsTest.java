package org.nccl4j.device.cuda.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;
import org.nccl4j.device.cuda.AgainstFakeCuda;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.CudaStream;

/** Streams beside those of captures, against the recording driver. */
class InternalStreamsTest extends AgainstFakeCuda {
  private static InternalStreams.Side launch(InternalStreams sides, CudaStream stream) {
    InternalStreams.Side side = sides.of(into(stream), stream.isCapturing());
    side.part(into(stream));
    side.join(into(stream));
    return side;
  }

  @Test
  void capturesAtATimeHaveAStreamEach() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream first = (CudaStream) device.createStream();
        CudaStream second = (CudaStream) device.createStream();
        InternalStreams sides = new InternalStreams(device.gpu())) {
      first.beginCapture();
      second.beginCapture();
      InternalStreams.Side ofFirst = launch(sides, first);
      InternalStreams.Side ofSecond = launch(sides, second);
      assertNotSame(ofFirst, ofSecond);
      assertSame(ofFirst, launch(sides, first), "a capture keeps its stream");
      assertSame(ofSecond, launch(sides, second));
      assertSame(sides.eager(), sides.of(into(first), false));
      second.endCapture().close();
      first.endCapture().close();
      assertFalse(fake.fakeRecord().contains("misuse"), fake.fakeRecord());
    }
  }

  @Test
  void captureAfterCaptureTakesTheSameStream() {
    CudaDevice device = CudaDevices.probe().list().get(0);
    try (CudaStream stream = (CudaStream) device.createStream();
        InternalStreams sides = new InternalStreams(device.gpu())) {
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
