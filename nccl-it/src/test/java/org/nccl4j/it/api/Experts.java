package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Random;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.ExpertConfig;
import org.nccl4j.api.ExpertExchange;
import org.nccl4j.api.ReceiveHook;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.numeric.FloatFormat;

/**
 * Dispatches of random tokens to random experts, some of them none, and combines, compared with
 * what a plain computation of all ranks' tokens gives. Every rank draws the data of all ranks.
 */
final class Experts {
  private static final byte POISON = 0x5a;

  private final ExpertConfig config;
  private final Communicator comm;
  private final String hosts;
  private final int n;
  private final int local;
  private final FloatFormat format;
  private final int[] counts;
  private final int[][] experts;
  private final float[][] weights;
  private final float[][] tokens;
  private boolean inParts;

  /** Draws a round. */
  private Experts(ExpertConfig config, Communicator comm, String hosts, Random random) {
    this.config = config;
    this.comm = comm;
    this.hosts = hosts;
    n = comm.nRanks();
    local = config.experts() / n;
    format = FloatFormat.of(config.type());
    counts = new int[n];
    experts = new int[n][];
    weights = new float[n][];
    tokens = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      counts[rank] = random.nextInt(3) == 0 ? 0 : random.nextInt(config.maxTokens() + 1);
      int most = random.nextInt(4) == 0 ? 1 : config.experts(); // sometimes all go to one rank
      experts[rank] = random.ints((long) counts[rank] * config.topK(), -1, most).toArray();
      weights[rank] = floats(random, counts[rank] * config.topK());
      tokens[rank] = floats(random, counts[rank] * config.hidden());
      for (int e = 0; e < Math.min(128, tokens[rank].length); e++) {
        tokens[rank][e] = 0; // a group of which the scale is 1
      }
      for (int e = 128; e < Math.min(256, tokens[rank].length); e++) {
        // A group with the least scale, zeros among it.
        tokens[rank][e] = e % 2 == 0 ? 0 : rounded(tokens[rank][e] * 1e-37f);
      }
      // A group with a NaN and one with an infinity, if there are so many.
      if (tokens[rank].length >= 512) {
        tokens[rank][256 + random.nextInt(128)] = Float.NaN;
        tokens[rank][384 + random.nextInt(128)] = Float.NEGATIVE_INFINITY;
      }
    }
  }

  private float[] floats(Random random, int count) {
    float[] made = new float[count];
    for (int i = 0; i < count; i++) {
      made[i] = rounded(random.nextFloat() * 20 - 10);
    }
    return made;
  }

  private float rounded(float x) {
    return (float) format.toDouble(format.fromDouble(x));
  }

  /** Runs rounds of one exchange on a rank; hosts do not add. */
  static void run(
      Communicator comm, DeviceStream stream, ExpertConfig config, int rounds, long seed) {
    run(comm, stream, config, "a".repeat(comm.nRanks()), rounds, seed);
  }

  /**
   * Runs rounds of one exchange on a rank.
   *
   * @param hosts by rank a letter for its host, if hosts add
   */
  static void run(
      Communicator comm,
      DeviceStream stream,
      ExpertConfig config,
      String hosts,
      int rounds,
      long seed) {
    Random random = new Random(seed);
    try (ExpertExchange exchange = comm.createExpertExchange(config)) {
      for (int round = 0; round < rounds; round++) {
        Experts drawn = new Experts(config, comm, hosts, random);
        // Ranks differ in the parts that they call.
        drawn.inParts = (round + comm.rank()) % 2 == 1;
        drawn.dispatch(exchange, stream);
        for (int again = 0; again < round % 3; again++) {
          drawn.combine(exchange, stream, random);
        }
      }
    }
  }

  private static ByteBuffer buffer(long bytes) {
    return ByteBuffer.allocate((int) bytes).order(ByteOrder.nativeOrder());
  }

  private ByteBuffer elements(float[] values) {
    ByteBuffer buffer = buffer((long) values.length * config.type().bytes());
    for (float value : values) {
      if (config.type() == DataType.FLOAT32) {
        buffer.putFloat(value);
      } else {
        buffer.putShort((short) format.fromDouble(value));
      }
    }
    return buffer.flip();
  }

  private DeviceMemory memory(ByteBuffer data) {
    DeviceMemory memory = comm.device().allocate(data.remaining());
    memory.write(0, data);
    return memory;
  }

  private static byte[] bytes(DeviceMemory memory, long count) {
    ByteBuffer data = buffer(count);
    memory.read(0, data);
    return data.array();
  }

  private void dispatch(ExpertExchange exchange, DeviceStream stream) {
    int me = comm.rank();
    ByteBuffer numbers = buffer(4L * experts[me].length);
    numbers.asIntBuffer().put(experts[me]);
    ByteBuffer factors = buffer(4L * weights[me].length);
    factors.asFloatBuffer().put(weights[me]);
    try (DeviceMemory send = memory(elements(tokens[me]));
        DeviceMemory to = memory(numbers);
        DeviceMemory weighted = memory(factors)) {
      if (inParts) {
        ReceiveHook part = exchange.beginDispatch(send, to, weighted, counts[me], stream);
        stream.synchronize();
        receive(part);
      } else {
        exchange.dispatch(send, to, weighted, counts[me], stream);
        stream.synchronize();
      }
    }
    int rows = rows(me);
    int hidden = config.hidden();
    ByteBuffer rowsExpected =
        buffer((long) rows * hidden * (config.fp8() ? 1 : config.type().bytes()));
    ByteBuffer scales = buffer(config.fp8() ? 4L * rows * (hidden / 128) : 0);
    ByteBuffer perRank = buffer(4L * local * n);
    ByteBuffer offsets = buffer(4L * (local + 1));
    int row = 0;
    for (int expert = 0; expert < local; expert++) {
      offsets.putInt(row);
      for (int source = 0; source < n; source++) {
        int before = row;
        for (int entry = 0; entry < experts[source].length; entry++) {
          if (experts[source][entry] == me * local + expert) {
            put(rowsExpected, scales, source, entry / config.topK());
            row++;
          }
        }
        perRank.putInt(row - before);
      }
    }
    offsets.putInt(row);
    assertArrayEquals(perRank.array(), bytes(exchange.counts(), perRank.capacity()), "counts");
    assertArrayEquals(offsets.array(), bytes(exchange.offsets(), offsets.capacity()), "offsets");
    assertArrayEquals(
        rowsExpected.array(), bytes(exchange.received(), rowsExpected.capacity()), "rows");
    assertArrayEquals(scales.array(), bytes(exchange.scales(), scales.capacity()), "scales");
  }

  /** Receives by a stream of its own. */
  private void receive(ReceiveHook part) {
    try (DeviceStream other = comm.device().createStream()) {
      part.receive(other);
      other.synchronize();
    }
  }

  private int rows(int rank) {
    int rows = 0;
    for (int[] of : experts) {
      for (int expert : of) {
        rows += expert >= 0 && expert / local == rank ? 1 : 0;
      }
    }
    return rows;
  }

  private void put(ByteBuffer rows, ByteBuffer scales, int source, int token) {
    int first = token * config.hidden();
    if (!config.fp8()) {
      float[] row = new float[config.hidden()];
      System.arraycopy(tokens[source], first, row, 0, row.length);
      rows.put(elements(row));
      return;
    }
    FloatFormat fp8 = FloatFormat.of(DataType.FLOAT8_E4M3);
    for (int group = first; group < first + config.hidden(); group += 128) {
      float most = 0;
      boolean finite = true;
      for (int e = group; e < group + 128; e++) {
        most = Math.max(most, Math.abs(tokens[source][e]));
        finite &= Float.isFinite(tokens[source][e]);
      }
      float greatest = most == 0 ? 448 : Math.max(most, 0x1p-100f);
      scales.putFloat(finite ? greatest / 448 : Float.NaN);
      for (int e = group; e < group + 128; e++) {
        rows.put(finite ? (byte) fp8.fromDouble(tokens[source][e] * (448 / greatest)) : 0);
      }
    }
  }

  /** The output of an expert for an entry: any number that all ranks can compute. */
  private float output(int salt, int source, int entry, int element) {
    int mixed = (salt * 31 + source * 131 + entry) * 7919 + element * 104_729;
    return rounded((mixed & 0x7ff) / 100f - 10);
  }

  /** An element of the sum of an own token's outputs, with those of each other host added there. */
  private float sum(int salt, int token, int element) {
    char own = hosts.charAt(comm.rank());
    StringBuilder added = new StringBuilder();
    float sum = 0;
    for (int k = 0; k < config.topK(); k++) {
      int entry = token * config.topK() + k;
      int expert = experts[comm.rank()][entry];
      char host = expert < 0 ? own : hosts.charAt(expert / local);
      if (expert >= 0 && host == own) {
        sum += weights[comm.rank()][entry] * output(salt, comm.rank(), entry, element);
      } else if (expert >= 0 && added.indexOf(String.valueOf(host)) < 0) {
        added.append(host);
        sum += rounded(sumOf(host, salt, token, element));
      }
    }
    return sum;
  }

  private float sumOf(char host, int salt, int token, int element) {
    float sum = 0;
    for (int k = 0; k < config.topK(); k++) {
      int entry = token * config.topK() + k;
      int expert = experts[comm.rank()][entry];
      if (expert >= 0 && hosts.charAt(expert / local) == host) {
        sum += weights[comm.rank()][entry] * output(salt, comm.rank(), entry, element);
      }
    }
    return sum;
  }

  private void combine(ExpertExchange exchange, DeviceStream stream, Random random) {
    int me = comm.rank();
    int salt = random.nextInt(1000);
    int hidden = config.hidden();
    float[] outputs = new float[rows(me) * hidden];
    int at = 0;
    for (int expert = 0; expert < local; expert++) {
      for (int source = 0; source < n; source++) {
        for (int entry = 0; entry < experts[source].length; entry++) {
          for (int e = 0; e < hidden && experts[source][entry] == me * local + expert; e++) {
            outputs[at++] = output(salt, source, entry, e);
          }
        }
      }
    }
    assertEquals(outputs.length, at);
    float[] sums = new float[counts[me] * hidden];
    for (int i = 0; i < sums.length; i++) {
      sums[i] = sum(salt, i / hidden, i % hidden);
    }
    byte[] expected = elements(sums).array();
    try (DeviceMemory from = memory(elements(outputs));
        DeviceMemory result = comm.device().allocate(expected.length + 64)) {
      result.fill(POISON);
      if (inParts) {
        ReceiveHook part = exchange.beginCombine(from, result, stream);
        stream.synchronize();
        receive(part);
      } else {
        exchange.combine(from, result, stream);
        stream.synchronize();
      }
      assertArrayEquals(expected, bytes(result, expected.length), "result");
      for (byte beyond : bytes(result.slice(expected.length, 64), 64)) {
        assertEquals(POISON, beyond);
      }
    }
  }
}
