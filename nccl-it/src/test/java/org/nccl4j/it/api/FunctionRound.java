package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.fail;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Random;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ReductionOperator;

/**
 * One rank's three reductions of random structs by a function, in place and not, compared with the
 * function applied to all ranks' structs in the order of the ranks. Bytes around the results stay.
 */
final class FunctionRound {
  private static final byte POISON = (byte) 0xA5;
  private static final int MARGIN = 64;

  /** The functions. Every rank makes the structs of all from one seed. */
  enum Kind {
    /** The greater value with its place; of equal ones the first rank's. */
    ARGMAX("greater of two", 12, 4) {
      @Override
      void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int at) {
        boolean second = a.getFloat(at) < b.getFloat(at);
        ByteBuffer from = second ? b : a;
        target.putFloat(at, from.getFloat(at));
        target.putInt(at + 4, from.getInt(at + 4));
        target.putInt(at + 8, from.getInt(at + 8));
      }

      @Override
      void put(ByteBuffer to, int at, Random random, int rank) {
        to.putFloat(at, random.nextInt(7)).putInt(at + 4, random.nextInt()).putInt(at + 8, rank);
      }
    },
    /** Products of matrices of two rows and columns, which do not commute. */
    MATRICES("product", 16, 16) {
      @Override
      void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int at) {
        int[] x = ints(a, at);
        int[] y = ints(b, at);
        target.putInt(at, x[0] * y[0] + x[1] * y[2]).putInt(at + 4, x[0] * y[1] + x[1] * y[3]);
        target.putInt(at + 8, x[2] * y[0] + x[3] * y[2]).putInt(at + 12, x[2] * y[1] + x[3] * y[3]);
      }

      @Override
      void put(ByteBuffer to, int at, Random random, int rank) {
        for (int i = 0; i < 16; i += 4) {
          to.putInt(at + i, random.nextInt());
        }
      }
    };

    private static final String SOURCE =
        """
        struct Pair { float value; int index; int rank; };
        struct ArgMax {
          __device__ Pair operator()(const Pair& a, const Pair& b) const {
            return a.value < b.value ? b : a;
          }
        };
        struct Matrix { unsigned int a, b, c, d; };
        struct Product {
          __device__ Matrix operator()(Matrix x, Matrix y) const {
            return {x.a * y.a + x.b * y.c, x.a * y.b + x.b * y.d,
                    x.c * y.a + x.d * y.c, x.c * y.b + x.d * y.d};
          }
        };
        """;

    private final String label;
    private final int bytes;
    private final int alignment;

    Kind(String label, int bytes, int alignment) {
      this.label = label;
      this.bytes = bytes;
      this.alignment = alignment;
    }

    private static int[] ints(ByteBuffer from, int at) {
      return new int[] {
        from.getInt(at), from.getInt(at + 4), from.getInt(at + 8), from.getInt(at + 12)
      };
    }

    abstract void combine(ByteBuffer a, ByteBuffer b, ByteBuffer target, int at);

    abstract void put(ByteBuffer to, int at, Random random, int rank);

    private ReductionOperator.Builder operator() {
      return ReductionOperator.functionOfStructs(label, bytes).notCommutative();
    }

    ReductionOperator hostOperator() {
      return operator()
          .onHost(
              (a, b, target, count, type) -> {
                for (int i = 0; i < count; i++) {
                  combine(a, b, target, i * bytes);
                }
              })
          .build();
    }

    ReductionOperator cudaOperator() {
      String functor = this == ARGMAX ? "ArgMax" : "Product";
      return operator().onCuda(CudaFunctor.ofSource(functor, SOURCE)).build();
    }
  }

  private final Communicator comm;
  private final DeviceStream stream;
  private final Kind kind;
  private final ReductionOperator operator;
  private final int count;
  private final int offset;
  private final int n;

  /**
   * A round.
   *
   * @param count structs
   * @param units the buffers begin at so many times the least alignment
   */
  FunctionRound(
      Communicator comm,
      DeviceStream stream,
      Kind kind,
      ReductionOperator operator,
      int count,
      int units) {
    this.comm = comm;
    this.stream = stream;
    this.kind = kind;
    this.operator = operator;
    this.count = count;
    this.offset = MARGIN + units * kind.alignment;
    this.n = comm.nRanks();
  }

  void run() {
    for (boolean inPlace : new boolean[] {false, true}) {
      allReduce(inPlace);
      for (int root = 0; root < n; root += Math.max(1, n - 1)) {
        reduce(root, inPlace);
      }
      reduceScatter(inPlace);
    }
  }

  private int whole(int structs) {
    return structs * kind.bytes;
  }

  /** The structs of a rank. */
  private ByteBuffer structs(int rank, int of) {
    Random random = new Random(31L * rank + of);
    ByteBuffer all = ByteBuffer.allocate(whole(of)).order(ByteOrder.nativeOrder());
    for (int i = 0; i < of; i++) {
      kind.put(all, whole(i), random, rank);
    }
    return all;
  }

  private byte[] result(int of) {
    ByteBuffer all = structs(0, of);
    for (int rank = 1; rank < n; rank++) {
      ByteBuffer more = structs(rank, of);
      for (int i = 0; i < of; i++) {
        kind.combine(all, more, all, whole(i));
      }
    }
    return all.array();
  }

  private DeviceMemory poisoned(int structs) {
    DeviceMemory memory = comm.device().allocate(offset + whole(structs) + MARGIN);
    memory.fill(POISON);
    return memory;
  }

  private DeviceMemory filled(int structs) {
    DeviceMemory memory = poisoned(structs);
    memory.write(offset, structs(comm.rank(), structs));
    return memory;
  }

  private DeviceMemory inner(DeviceMemory memory, int structs) {
    return memory.slice(offset, whole(structs));
  }

  private void allReduce(boolean inPlace) {
    try (DeviceMemory send = filled(count);
        DeviceMemory recv = inPlace ? send : poisoned(count)) {
      comm.allReduce(
          inner(send, count), inner(recv, count), whole(count), DataType.UINT8, operator, stream);
      check("all-reduce", recv, 0, count, result(count), 0);
      if (!inPlace) {
        check("send of all-reduce", send, 0, count, structs(comm.rank(), count).array(), 0);
      }
    }
  }

  private void reduce(int root, boolean inPlace) {
    try (DeviceMemory send = filled(count);
        DeviceMemory recv = inPlace ? send : poisoned(count)) {
      boolean isRoot = comm.rank() == root;
      comm.reduce(
          inner(send, count),
          isRoot ? inner(recv, count) : null,
          whole(count),
          DataType.UINT8,
          operator,
          root,
          stream);
      byte[] expected = isRoot ? result(count) : structs(comm.rank(), count).array();
      check("reduce", isRoot ? recv : send, 0, count, expected, 0);
    }
  }

  private void reduceScatter(boolean inPlace) {
    int first = comm.rank() * count;
    try (DeviceMemory send = filled(n * count);
        DeviceMemory recv = inPlace ? send : poisoned(count)) {
      DeviceMemory to =
          inPlace ? send.slice(offset + whole(first), whole(count)) : inner(recv, count);
      comm.reduceScatter(
          inner(send, n * count), to, whole(count), DataType.UINT8, operator, stream);
      check("reduce-scatter", recv, inPlace ? first : 0, count, result(n * count), first);
    }
  }

  /** Compares structs of a memory; what lies outside of all its structs is poison. */
  private void check(
      String what, DeviceMemory memory, int at, int structs, byte[] expected, int from) {
    stream.synchronize();
    byte[] got = bytes(memory, (int) memory.size());
    int begin = offset + whole(at);
    for (int i = 0; i < structs; i++) {
      byte[] one = Arrays.copyOfRange(got, begin + whole(i), begin + whole(i + 1));
      byte[] wanted = Arrays.copyOfRange(expected, whole(from + i), whole(from + i + 1));
      if (!Arrays.equals(one, wanted)) {
        fail(
            "%s of %d %s on rank %d of %d: struct %d is %s and should be %s"
                .formatted(
                    what,
                    count,
                    kind,
                    comm.rank(),
                    n,
                    i,
                    Arrays.toString(one),
                    Arrays.toString(wanted)));
      }
    }
    for (int i = 0; i < got.length; i++) {
      if (i < offset || i >= got.length - MARGIN) {
        assertEquals(POISON, got[i], what + ", byte " + i);
      }
    }
  }

  static byte[] bytes(DeviceMemory memory, int count) {
    byte[] got = new byte[count];
    memory.read(0, ByteBuffer.wrap(got));
    return got;
  }

  static void copy(ByteBuffer from, ByteBuffer target) {
    target.duplicate().put(from.duplicate());
  }
}
