package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.QuantisedWork.Parts;
import org.nccl4j.device.numeric.Float8E4m3;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.device.numeric.ShortFormat;

/**
 * The steps of an exchange with experts on the host, row by row, in float32 arithmetic; as {@link
 * ExpertKernels.Steps}.
 *
 * <p>Owned by one thread at a time.
 */
public final class ExpertPacker {
  private final ExpertSizes sizes;
  private final ShortFormat shortFormat; // null for FLOAT32
  private final ByteBuffer row;
  private final ByteBuffer wire;
  private final ByteBuffer scales;
  private final ByteBuffer travelling;
  private final float[] sums;

  /** The steps of one exchange. */
  public ExpertPacker(ExpertSizes sizes) {
    this.sizes = sizes;
    shortFormat =
        sizes.type() == DataType.FLOAT32 ? null : (ShortFormat) FloatFormat.of(sizes.type());
    row = buffer(sizes.rowBytes());
    wire = sizes.fp8() ? buffer(sizes.wireBytes()) : row;
    scales = buffer(sizes.scaleBytes());
    travelling = buffer(sizes.travelBytes());
    sums = new float[sizes.hidden()];
  }

  private static ByteBuffer buffer(long bytes) {
    return ByteBuffer.allocateDirect(Math.toIntExact(bytes)).order(ByteOrder.nativeOrder());
  }

  /** Packs tokens. */
  public void pack(
      DeviceMemory items, DeviceMemory targets, long count, HostMemory from, HostMemory to) {
    ByteBuffer tokens = list(items, count);
    ByteBuffer rows = list(targets, count);
    for (int i = 0; i < count; i++) {
      from.readLaunched(tokens.getInt() * sizes.rowBytes(), row.clear());
      if (sizes.fp8()) {
        convert();
      }
      long target = rows.getInt() * sizes.travelBytes();
      write(to, target, wire);
      write(to, target + sizes.wireBytes(), scales);
    }
  }

  /** Copies packed rows. */
  public void forward(
      DeviceMemory items, DeviceMemory targets, long count, HostMemory from, HostMemory to) {
    ByteBuffer sources = list(items, count);
    ByteBuffer rows = list(targets, count);
    for (int i = 0; i < count; i++) {
      from.readLaunched(sources.getInt() * sizes.travelBytes(), travelling.clear());
      write(to, rows.getInt() * sizes.travelBytes(), travelling);
    }
  }

  /** Places received rows and their scales. */
  public void place(
      DeviceMemory items, DeviceMemory toScales, long count, HostMemory from, HostMemory to) {
    ByteBuffer rows = list(items, count);
    HostMemory ofRows = HostMemory.of(toScales);
    for (int i = 0; i < count; i++) {
      long source = rows.getInt() * sizes.travelBytes();
      from.readLaunched(source, wire.clear());
      write(to, i * sizes.wireBytes(), wire);
      from.readLaunched(source + sizes.wireBytes(), scales.clear());
      write(ofRows, i * sizes.scaleBytes(), scales);
    }
  }

  /** Gathers outputs. */
  public void gather(DeviceMemory targets, long count, HostMemory from, HostMemory to) {
    ByteBuffer rows = list(targets, count);
    for (int i = 0; i < count; i++) {
      from.readLaunched(i * sizes.rowBytes(), row.clear());
      write(to, rows.getInt() * sizes.rowBytes(), row);
    }
  }

  /** Adds each token's outputs, times their weights, in the order of k; rounds once. */
  public void add(
      DeviceMemory places, DeviceMemory weights, long tokens, HostMemory from, HostMemory to) {
    ByteBuffer rows = list(places, tokens * sizes.topK());
    ByteBuffer factors = list(weights, tokens * sizes.topK());
    for (int token = 0; token < tokens; token++) {
      Arrays.fill(sums, 0);
      for (int k = 0; k < sizes.topK(); k++) {
        int place = rows.getInt();
        float weight = factors.getFloat();
        if (place >= 0) {
          from.readLaunched(place * sizes.rowBytes(), row.clear());
          for (int e = 0; e < sums.length; e++) {
            sums[e] += weight * value(e);
          }
        }
      }
      for (int e = 0; e < sums.length; e++) {
        if (shortFormat == null) {
          row.putFloat(e * Float.BYTES, sums[e]);
        } else {
          row.putShort(e * Short.BYTES, shortFormat.nearest(sums[e]));
        }
      }
      write(to, token * sizes.rowBytes(), row);
    }
  }

  private static ByteBuffer list(DeviceMemory words, long count) {
    ByteBuffer list =
        ByteBuffer.allocate(Math.toIntExact(count * Integer.BYTES)).order(ByteOrder.nativeOrder());
    HostMemory.of(words).readLaunched(0, list);
    return list.flip();
  }

  /** Writes a whole buffer. */
  private static void write(HostMemory to, long at, ByteBuffer bytes) {
    if (bytes.capacity() > 0) {
      to.window(at).put(to.index(at), bytes, 0, bytes.capacity());
    }
  }

  private float value(int element) {
    return shortFormat == null
        ? row.getFloat(element * Float.BYTES)
        : shortFormat.value(row.getShort(element * Short.BYTES));
  }

  /** Makes the fp8 form of a token. */
  private void convert() {
    for (int group = 0; group < sizes.scales(); group++) {
      int first = group * ExpertSizes.SCALED;
      int most = 0;
      for (int e = first; e < first + ExpertSizes.SCALED; e++) {
        most = Math.max(most, Float.floatToIntBits(Math.abs(value(e))));
      }
      boolean finite = Parts.isFinite(most);
      float greatest = Parts.greatest(most, Parts.MOST_FP8);
      float factor = Parts.MOST_FP8 / greatest;
      for (int e = first; e < first + ExpertSizes.SCALED; e++) {
        wire.put(e, Float8E4m3.fromFloat(finite ? value(e) * factor : 0));
      }
      scales.putFloat(
          group * Float.BYTES, finite ? Parts.scale(greatest, Parts.MOST_FP8) : Float.NaN);
    }
  }
}
