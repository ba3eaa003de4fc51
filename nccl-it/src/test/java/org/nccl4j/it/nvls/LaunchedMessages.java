package org.nccl4j.it.nvls;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import jnr.ffi.LibraryLoader;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.plan.KernelLayout;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.operation.Protocol;

/**
 * Does what a launch of sends and receives in Simple would do on a GPU, by the arguments that the
 * fake driver was given: threads in the place of blocks fill and empty slots, or let proxies use
 * the buffers as exposed.cuh does. The fake's devices see memory where the process does. A sender
 * overwrites a message as soon as it may.
 */
final class LaunchedMessages {
  /** The entry of fakecuda.c. Public for jnr-ffi's stubs. */
  public interface Arguments {
    void fakeAllArguments(long to, int bytes);
  }

  private static final Executor THREADS = task -> new Thread(task).start();
  private static final Arguments DRIVER =
      LibraryLoader.create(Arguments.class)
          .failImmediately()
          .load(System.getenv("LD_LIBRARY_PATH") + "/libcuda.so.1");
  private static final VarHandle LONG =
      MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

  /** True if the network says of which call a step is. */
  private static final boolean NOTES = !"Plugin".equals(System.getenv("NCCL_NET"));

  private static final int RECV = 1;
  private static final int COPY = 2;
  private static final int BASE_SEND = 1;
  private static final int BASE_RECV = 2;
  private static final byte OVERWRITTEN = 0x5a;

  private final Offheap arguments = new Offheap(KernelLayout.P2P_BYTES);
  private final ByteBuffer bytes = arguments.bytes();
  private final ConnectionLayout layout;
  private final AtomicLong exposed;
  private final AtomicLong placed;
  private final AtomicLong inSlots;

  /** Takes the arguments of the last launch. */
  LaunchedMessages(
      ConnectionLayout layout, AtomicLong exposed, AtomicLong placed, AtomicLong inSlots) {
    this.layout = layout;
    this.exposed = exposed;
    this.placed = placed;
    this.inSlots = inSlots;
    DRIVER.fakeAllArguments(arguments.address(), KernelLayout.P2P_BYTES);
  }

  /** Of a layout's bytes, of which the memory has those of the channels in use. */
  static ByteBuffer view(long address, long size) {
    return NativeMemory.buffer(address, (int) size).order(ByteOrder.nativeOrder());
  }

  /** Begins; the result ends when all blocks have. */
  CompletableFuture<Void> start() {
    List<CompletableFuture<Void>> blocks = new ArrayList<>();
    for (int group = 0; group < bytes.getInt(KernelLayout.N_GROUPS); group++) {
      int at = KernelLayout.INLINE_GROUP_TABLE + group * KernelLayout.GROUP_BYTES;
      for (int channel = 0; channel < bytes.getShort(at + KernelLayout.GROUP_N_BLOCKS); channel++) {
        Block block = new Block(at, channel);
        blocks.add(CompletableFuture.runAsync(block::run, THREADS));
      }
    }
    return CompletableFuture.allOf(blocks.toArray(CompletableFuture<?>[]::new));
  }

  /** A channel of a group. */
  private final class Block {
    private final int group;
    private final int channel;
    private final int kind;
    private ByteBuffer data;
    private ByteBuffer credit;
    private ByteBuffer steps;
    private final int word;
    private final int part;

    Block(int group, int channel) {
      this.group = group;
      this.channel = channel;
      this.kind = bytes.get(group + KernelLayout.GROUP_KIND);
      this.word = ConnectionLayout.word(channel);
      this.part = layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
      if (kind != COPY) {
        data = view(bytes.getLong(group + KernelLayout.GROUP_DATA), layout.dataBytes());
        credit =
            view(bytes.getLong(group + KernelLayout.GROUP_CREDIT), ConnectionLayout.CREDIT_BYTES);
        long all = bytes.getLong(group + KernelLayout.GROUP_STEPS);
        steps = view(all + (long) channel * KernelLayout.STEPS_BYTES, KernelLayout.STEPS_BYTES);
      }
    }

    void run() {
      int first = bytes.getInt(group + KernelLayout.GROUP_FIRST_WORK);
      int end = first + bytes.getInt(group + KernelLayout.GROUP_N_WORKS);
      for (int work = first; work < end; work++) {
        int at = KernelLayout.INLINE_WORK_TABLE + work * KernelLayout.WORK_SIZE;
        int parts = bytes.get(at + KernelLayout.WORK_PARTS);
        if (channel < parts) {
          long total = bytes.getLong(at + KernelLayout.WORK_BYTES);
          long each = (total + parts - 1) / parts + 127 & ~127L;
          long begin = Math.min(total, each * channel);
          long share = Math.min(total - begin, each);
          run(work, at, begin, share);
        }
      }
    }

    private void run(int work, int at, long begin, long share) {
      long address = address(at, KernelLayout.WORK_ADDRESS, KernelLayout.WORK_BASE) + begin;
      if (kind == COPY) {
        long target = address(at, KernelLayout.WORK_TARGET, KernelLayout.WORK_TARGET_BASE);
        view(target + begin, share).put(view(address, share));
        return;
      }
      int protocol = bytes.get(at + KernelLayout.WORK_PROTOCOL);
      SlotKernel.require(protocol == Protocol.SIMPLE.ordinal(), "protocol %d", protocol);
      long bits = bytes.getLong(KernelLayout.EXPOSED + work / Long.SIZE * Long.BYTES);
      boolean uses = (bits >>> work & 1) != 0;
      int call = bytes.getShort(at + KernelLayout.WORK_SIGNATURE) & 0xffff;
      if (kind == RECV) {
        receive(address, share, uses, call);
      } else {
        send(address, share, uses, call);
      }
    }

    private long address(int at, int which, int base) {
      long given = bytes.getLong(at + which);
      return switch (bytes.get(at + base)) {
        case BASE_SEND -> bytes.getLong(KernelLayout.SEND) + given;
        case BASE_RECV -> bytes.getLong(KernelLayout.RECV) + given;
        default -> given;
      };
    }

    private ByteBuffer slot(long step, int size) {
      return data.slice((int) layout.simple(step) + channel * part, size);
    }

    private int callWord(long step, int call) {
      return call << 16 | (int) (step / ConnectionLayout.STEPS) & 0xffff;
    }

    private void send(long address, long share, boolean exposes, int call) {
      long first = steps.getLong(0);
      long end = first + (share + part - 1) / part;
      for (long step = first; step < end; step++) {
        await(credit, step - ConnectionLayout.STEPS + 1);
        long from = address + (step - first) * part;
        int size = (int) Math.min(part, address + share - from);
        if (exposes) {
          data.putLong(word + (int) ConnectionLayout.exposedFrom(step), from);
          exposed.incrementAndGet();
        } else {
          slot(step, size).put(view(from, size));
          overwrite(from, size);
        }
        data.putInt(
            word + (int) ConnectionLayout.size(step),
            exposes ? ConnectionLayout.EXPOSED | size : size);
        if (step == first) {
          data.putInt(word + (int) ConnectionLayout.call(step), callWord(step, call));
        }
        LONG.setRelease(data, word, step + 1);
      }
      if (exposes) {
        await(credit, end);
        overwrite(address, share);
      }
      steps.putLong(0, end);
    }

    private static void overwrite(long address, long size) {
      HostDevice.instance().wrap(address, size).fill(OVERWRITTEN);
    }

    private void receive(long address, long share, boolean wants, int call) {
      long first = steps.getLong(Long.BYTES);
      long end = first + (share + part - 1) / part;
      for (long step = first;
          wants && step < Math.min(end, first + ConnectionLayout.STEPS);
          step++) {
        want(step, first, address, share);
      }
      for (long step = first; step < end; step++) {
        await(data, step + 1);
        int said = data.getInt(word + (int) ConnectionLayout.call(step));
        SlotKernel.require(
            step != first || said == callWord(step, call) || !NOTES && said == 0, "call %x", said);
        boolean there = data.getLong(word + (int) ConnectionLayout.placed(step)) == step + 1;
        SlotKernel.require(wants || !there, "step %d was not wanted", step);
        long to = address + (step - first) * part;
        int size = (int) Math.min(part, address + share - to);
        if (!there) {
          view(to, size).put(slot(step, size));
        }
        (there ? placed : inSlots).incrementAndGet();
        if (wants && step + ConnectionLayout.STEPS < end) {
          want(step + ConnectionLayout.STEPS, first, address, share);
        }
        LONG.setRelease(credit, word, step + 1);
      }
      steps.putLong(Long.BYTES, end);
    }

    private void want(long step, long first, long address, long share) {
      long to = address + (step - first) * part;
      long size = Math.min(part, address + share - to);
      int at = word + (int) ConnectionLayout.wanted(step);
      credit.putLong(at, to);
      credit.putLong(at + Long.BYTES, step + 1 << ConnectionLayout.WANTED_STEP | size);
      LONG.setRelease(credit, word + (int) ConnectionLayout.WANTED, step + 1);
    }

    private void await(ByteBuffer words, long least) {
      long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SlotKernel.PATIENCE_SECONDS);
      while ((long) LONG.getAcquire(words, word) < least) {
        SlotKernel.require(
            System.nanoTime() - end < 0, "step %d of channel %d does not come", least, channel);
        Thread.yield();
      }
    }
  }
}
