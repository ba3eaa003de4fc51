package org.nccl4j.device.host.kernel.protocol;

import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CallSignature;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/** A step's data are there when its flag is, and nothing overwrites them before they are read. */
public final class ConnectionStress {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(16, 128, 128);
  private static final int BYTES = 8;
  private static final Call CALL = new Call(CallSignature.ofMessage(BYTES), () -> "a step");
  private static final HostMemory SOURCE = HostMemory.of(HostDevice.instance().allocate(BYTES));

  /** Memory of connections that are used no more. */
  private static final Queue<Connection> FREE = new ConcurrentLinkedQueue<>();

  static {
    SOURCE.fill((byte) 1);
  }

  private ConnectionStress() {}

  /** A connection on which a round of steps has gone. */
  static class Wire {
    final Connection connection = connection();
    final SendEnd send = new SendEnd(1, connection, LAYOUT);
    final RecvEnd recv = new RecvEnd(0, connection, LAYOUT);

    private static Connection connection() {
      Connection free = FREE.poll();
      Connection connection =
          free != null
              ? free
              : new Connection(
                  HostDevice.instance().allocate(LAYOUT.dataBytes()),
                  HostDevice.instance().allocate(ConnectionLayout.CREDIT_BYTES));
      HostMemory.of(connection.data()).fill((byte) 0);
      HostMemory.of(connection.credit()).fill((byte) 0);
      return connection;
    }

    final void put(long at, long value) {
      send.data.window(at).putLong(send.data.index(at), value);
    }

    final long get(long at) {
      return recv.data.window(at).getLong(recv.data.index(at));
    }

    /** The sender has filled all slots. */
    final void fill() {
      for (int step = 0; step < ConnectionLayout.STEPS; step++) {
        put(send.simpleSlot(), 1);
        send.post(BYTES, CALL);
      }
    }

    /** Gives the memory back. */
    @Arbiter
    public void free(II_Result r) {
      FREE.add(connection);
    }
  }

  /** Tail and size. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Not there, or whole.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "The tail is seen before the data.")
  public static class Simple extends Wire {
    /** Sends. */
    @Actor
    public void send() {
      put(send.simpleSlot(), 1);
      send.post(BYTES, CALL);
    }

    /** Receives. */
    @Actor
    public void receive(II_Result r) {
      if (recv.hasData()) {
        r.r1 = 1;
        long size = ConnectionLayout.size(0), signature = ConnectionLayout.signature(0);
        boolean whole = recv.data.window(size).getInt(recv.data.index(size)) == BYTES;
        whole &= recv.data.window(signature).getShort(recv.data.index(signature)) == CALL.signature;
        r.r2 = whole ? (int) get(recv.simpleSlot()) : 2;
      }
    }
  }

  /** LL128's flag. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Not there, or whole.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "The flag is seen before the data.")
  public static class Ll128 extends Wire {
    /** Sends. */
    @Actor
    public void send() {
      if (send.hasLl128Credit(BYTES)) {
        put(send.ll128Data(), 1);
        send.postLl128(BYTES, CALL);
      }
    }

    /** Receives. */
    @Actor
    public void receive(II_Result r) {
      if (recv.hasLl128(CALL, BYTES)) {
        r.r1 = 1;
        r.r2 = (int) get(recv.ll128Data());
      }
    }
  }

  /** LL's words, each with its flag. */
  @JCStressTest
  @State
  @Outcome(
      id = {"0, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Not there, or whole.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "A flag is seen without its data.")
  public static class Ll extends Wire {
    /** Sends. */
    @Actor
    public void send() {
      LlLines.pack(SOURCE, 0, BYTES, send.memory(), send.llSlot(), send.llFlag(CALL));
      send.next(BYTES);
    }

    /** Receives. */
    @Actor
    public void receive(II_Result r) {
      if (LlLines.isComplete(recv, BYTES, recv.llFlag(CALL))) {
        r.r1 = 1;
        long first = recv.llSlot();
        int low = (int) AtomicWords.loadOpaque(recv.data.window(first), recv.data.index(first));
        int high =
            (int) AtomicWords.loadOpaque(recv.data.window(first + 8), recv.data.index(first + 8));
        r.r2 = low == 0x01010101 && high == low ? 1 : 2;
      }
    }
  }

  /** The head: a slot is given back after it was read. */
  @JCStressTest
  @State
  @Outcome(
      id = {"1, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Read before it is filled.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "Filled again before it was read.")
  public static class Head extends Wire {
    /** With full slots. */
    public Head() {
      fill();
    }

    /** Receives. */
    @Actor
    public void receive(II_Result r) {
      r.r1 = recv.hasData() ? (int) get(recv.simpleSlot()) : 3;
      recv.release();
    }

    /** Sends. */
    @Actor
    public void send(II_Result r) {
      if (send.hasCredit()) {
        r.r2 = 1;
        put(send.simpleSlot(), 2);
        send.post(BYTES, CALL);
      }
    }
  }

  /** LL's words are cleared before their slot is given back. */
  @JCStressTest
  @State
  @Outcome(
      id = {"1, 0", "1, 1"},
      expect = Expect.ACCEPTABLE,
      desc = "Cleared before it is filled.")
  @Outcome(expect = Expect.FORBIDDEN, desc = "The next step's data are cleared.")
  public static class Clear extends Wire {
    private static final long LAST = (1 << 22) - 1;

    /** At the last step before flags repeat, which is there. */
    public Clear() {
      AtomicWords.storeRelease(recv.credit, ConnectionLayout.HEAD, LAST);
      send.goOnAt(LAST);
      recv.goOnAt(LAST);
      LlLines.pack(SOURCE, 0, BYTES, send.memory(), send.llSlot(), send.llFlag(CALL));
      send.goOnAt(LAST + ConnectionLayout.STEPS);
    }

    /** Receives the last step. */
    @Actor
    public void receive() {
      recv.releaseLazily();
    }

    /** Sends into the same slot. */
    @Actor
    public void send(II_Result r) {
      if (send.hasCredit()) {
        r.r2 = 1;
        LlLines.pack(SOURCE, 0, BYTES, send.memory(), send.llSlot(), send.llFlag(CALL));
      }
    }

    /** Looks whether what was sent is there, or all is cleared. */
    @Arbiter
    @Override
    public void free(II_Result r) {
      recv.goOnAt(LAST + ConnectionLayout.STEPS);
      boolean there = LlLines.isComplete(recv, BYTES, recv.llFlag(CALL));
      r.r1 = there == (r.r2 == 1) ? 1 : 2;
      super.free(r);
    }
  }
}
