package org.nccl4j.api;

import java.util.HashMap;
import java.util.Map;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.group.QuantisedSums;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.settings.PlanSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * Options of single operations, for {@link Communicator#withOptions}. Missing options are the
 * communicator's. Immutable; each {@code with} method returns a changed copy.
 */
public final class CallOptions {
  private static final int SMALL_BLOCK = 32;
  private static final int LARGE_BLOCK = 128;

  /** As NCCL_MAX_CTAS has it. */
  private static final int MOST_CTAS = 64;

  private static final CallOptions DEFAULTS = new CallOptions(Map.of(), null, 0, null);

  private final Map<String, String> settings;

  /** Null where data do not travel quantised. */
  private final DataType format;

  private final int block;

  /** Null without error feedback. */
  private final DeviceMemory residual;

  private CallOptions(
      Map<String, String> settings, DataType format, int block, DeviceMemory residual) {
    this.settings = settings;
    this.format = format;
    this.block = block;
    this.residual = residual;
  }

  /** The communicator's options. */
  public static CallOptions defaults() {
    return DEFAULTS;
  }

  /** The algorithms to choose from, in the syntax of NCCL_ALGO, such as "Ring". */
  public CallOptions withAlgorithm(String names) {
    return with(Settings.NCCL_ALGO.name(), names);
  }

  /** The protocols to choose from, in the syntax of NCCL_PROTO, such as "Simple". */
  public CallOptions withProtocol(String names) {
    return with(Settings.NCCL_PROTO.name(), names);
  }

  /** The most blocks (CTAs) on a GPU, 1 to 64. The host device has none. */
  public CallOptions withMaxCtas(int ctas) {
    return with(Settings.NCCL_MAX_CTAS.name(), ctas("withMaxCtas", "most", ctas));
  }

  /** The fewest blocks (CTAs) on a GPU, 1 to 64. The host device has none. */
  public CallOptions withMinCtas(int ctas) {
    return with(Settings.NCCL_MIN_CTAS.name(), ctas("withMinCtas", "fewest", ctas));
  }

  /** As {@link CommunicatorConfig#withCtaPolicy}, for these calls. */
  public CallOptions withCtaPolicy(CommunicatorConfig.CtaPolicy policy) {
    return with(
        PlanSettings.NCCL_CTA_POLICY.name(), Arguments.notNull(policy, "policy of CTAs").setting());
  }

  /**
   * Quantises the data that all-reduces and reduce-scatters send: 8 bits for each element and a
   * float32 scale for each block of elements. For SUM and AVG of FLOAT32, FLOAT16 and BFLOAT16;
   * other operations are not quantised.
   *
   * <p>Each rank's elements are rounded to the format once, added in float32 in the order of the
   * ranks, and the sum is rounded to the type; an all-reduce's sum is rounded to the format before.
   * Among hosts with as many ranks each, at least 2, the elements of a host's ranks may be added
   * before they are rounded, if that is predicted to be faster. The result has the same bits on all
   * ranks. Among such hosts the way that is chosen changes the bits: name it by {@link
   * #withAlgorithm}, or set NCCL4J_DETERMINISM to SIZE_INVARIANT, under which no elements are added
   * before they are rounded. A block's scale is its greatest magnitude, but at least
   * 2<sup>-100</sup>, divided by 448 (FLOAT8_E4M3) or 127 (INT8). A rounding to FLOAT8_E4M3 changes
   * an element by at most 1/16 of it, or by 1/458,000 of the block's greatest magnitude if that is
   * more; one to INT8 by at most 1/254 of the block's greatest magnitude. A block in which a rank
   * has a NaN or an infinity comes out as NaN.
   *
   * <p>The communicator keeps two memories of about a byte for each element of the largest such
   * call until it is closed, whatever the options; among several hosts one may have the bytes of
   * the elements. The first call of each larger count allocates them.
   *
   * @param wireFormat FLOAT8_E4M3 or INT8; the same on all ranks
   * @param elements that share a scale, 32 or 128; the same on all ranks
   * @throws InvalidArgumentException for another format or number
   */
  public CallOptions withQuantisation(DataType wireFormat, int elements) {
    Arguments.notNull(wireFormat, "format of quantised data");
    if (wireFormat != DataType.FLOAT8_E4M3 && wireFormat != DataType.INT8) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "data are to be quantised as " + wireFormat.label(),
          "pass FLOAT8_E4M3 or INT8");
    }
    if (elements != SMALL_BLOCK && elements != LARGE_BLOCK) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "blocks of quantised data have %d elements".formatted(elements),
          "pass %d or %d".formatted(SMALL_BLOCK, LARGE_BLOCK));
    }
    return new CallOptions(settings, wireFormat, elements, residual);
  }

  /**
   * Makes quantised operations add the error of this rank's last rounding to its elements and keep
   * the new one, so that errors do not add up over calls. Without {@link #withQuantisation} it has
   * no effect. A block in which this rank has a NaN or an infinity leaves its errors as they are.
   * Where a host's ranks add their elements first, the rank that owns the sum of a block keeps the
   * host's errors of it, and a NaN or an infinity of any rank of the host leaves them as they are.
   *
   * @param errors float32 for each element of the send buffer: zeros before the first call, then
   *     read and written by each call from the start on. So calls on other data or counts, or by
   *     another algorithm, need other options. It stays the caller's and is open while the options
   *     are used
   */
  public CallOptions withErrorFeedback(DeviceMemory errors) {
    Arguments.notNull(errors, "memory of errors");
    return new CallOptions(settings, format, block, errors);
  }

  private CallOptions with(String name, String value) {
    Map<String, String> changed = new HashMap<>(settings);
    changed.put(name, Arguments.notNull(value, "value of " + name));
    return new CallOptions(Map.copyOf(changed), format, block, residual);
  }

  /** Returns a dispatcher of operations with these options. */
  OperationDispatcher dispatcher(CommunicatorState state) {
    return state.dispatcher(settings, format == null ? null : new QuantisedSums.How(format, block));
  }

  /** Returns the memory of errors; null without error feedback. */
  DeviceMemory errors() {
    return residual;
  }

  /**
   * A number of blocks as the text of a setting.
   *
   * @param method that was called
   */
  static String ctas(String method, String which, int ctas) {
    if (ctas < 1 || ctas > MOST_CTAS) {
      throw new InvalidArgumentException(
          ErrorId.SETTING,
          "%s: the %s CTAs are %d".formatted(method, which, ctas),
          "pass 1 to " + MOST_CTAS);
    }
    return Integer.toString(ctas);
  }
}
