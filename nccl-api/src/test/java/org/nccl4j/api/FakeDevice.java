package org.nccl4j.api;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.Leases;

/**
 * A GPU of memory without content, of which it records how it was freed, and of events, which its
 * streams reach at once or when a test says so.
 */
public final class FakeDevice extends Device {
  /** Bytes of each memory that was freed, after "late " if not by the thread that closed it. */
  public final List<String> freed = new CopyOnWriteArrayList<>();

  /** Events that are not closed. */
  public final AtomicInteger events = new AtomicInteger();

  /** Events of which the time was asked. */
  public final AtomicInteger asked = new AtomicInteger();

  /** Streams that were created, and those of them that are not closed. */
  public final AtomicInteger streams = new AtomicInteger();

  public final AtomicInteger openStreams = new AtomicInteger();

  /** True once each call fails. */
  public volatile boolean failed;

  /** True while no event can be created. */
  public volatile boolean isFull;

  private void check() {
    if (failed) {
      throw new InternalErrorException("the GPU is lost", "none");
    }
  }

  private final class Recorded extends Leases {
    private final long bytes;

    Recorded(long bytes) {
      this.bytes = bytes;
    }

    @Override
    protected void free() {
      freed.add(Long.toString(bytes));
    }

    @Override
    protected void freeLate() {
      freed.add("late " + bytes);
    }
  }

  private final class Memory extends DeviceMemory {
    Memory(long bytes) {
      super(bytes, new Recorded(bytes));
    }

    private Memory(Memory of, long bytes) {
      super(of, bytes);
    }

    @Override
    public Device device() {
      return FakeDevice.this;
    }

    @Override
    public long address() {
      return 0;
    }

    @Override
    public DeviceMemory slice(long offset, long bytes) {
      return new Memory(this, bytes);
    }

    @Override
    public void write(long offset, ByteBuffer source) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void read(long offset, ByteBuffer target) {
      throw new UnsupportedOperationException();
    }

    @Override
    public void fill(byte value) {
      throw new UnsupportedOperationException();
    }
  }

  /** An event that is reached once it was recorded, if its stream does not stand still. */
  public final class Event extends DeviceEvent {
    private Stream stream;
    private long nanos;
    private boolean broken;
    private boolean closed;

    private Event() {
      events.incrementAndGet();
    }

    @Override
    public synchronized boolean isComplete() {
      check();
      if (broken) {
        throw new InternalErrorException("the event was captured", "none");
      }
      return stream == null || !stream.standsStill;
    }

    @Override
    public void synchronize() {
      throw new UnsupportedOperationException();
    }

    @Override
    public double microsecondsSince(DeviceEvent earlier) {
      asked.incrementAndGet();
      return (nanos - ((Event) earlier).nanos) / 1000.0;
    }

    @Override
    public synchronized void close() {
      if (!closed) {
        closed = true;
        events.decrementAndGet();
      }
    }
  }

  /** A stream of events. */
  public final class Stream extends DeviceStream {
    public volatile boolean standsStill;

    /** The times of the events that were recorded. */
    public final List<Long> recorded = new CopyOnWriteArrayList<>();

    /** True while events that are recorded can not be asked later. */
    public volatile boolean breaksEvents;

    /** Runs before an event is recorded. */
    public Runnable before = () -> {};

    Stream() {
      super(null);
      streams.incrementAndGet();
      openStreams.incrementAndGet();
    }

    @Override
    public Device device() {
      return FakeDevice.this;
    }

    @Override
    public void record(DeviceEvent event) {
      check();
      before.run();
      Event recorded = (Event) event;
      synchronized (recorded) {
        recorded.stream = this;
        recorded.nanos = System.nanoTime();
        recorded.broken = breaksEvents;
        this.recorded.add(recorded.nanos);
      }
    }

    @Override
    public void launchHostFunction(Runnable function) {
      throw new UnsupportedOperationException("it would keep the stream from going on");
    }

    @Override
    public void synchronize() {}

    @Override
    public void synchronize(Duration patience) {}

    @Override
    public boolean isIdle() {
      return !standsStill;
    }

    @Override
    public void await(DeviceEvent event) {}

    @Override
    public void copy(DeviceMemory source, DeviceMemory target) {}

    @Override
    public void close() {
      openStreams.decrementAndGet();
    }
  }

  @Override
  public Kind kind() {
    return Kind.CUDA;
  }

  @Override
  public int index() {
    return 0;
  }

  @Override
  public String name() {
    return "a device of a test";
  }

  @Override
  public DeviceMemory allocate(long bytes) {
    return new Memory(bytes);
  }

  @Override
  public DeviceMemory memAlloc(long bytes) {
    return new Memory(bytes);
  }

  @Override
  public DeviceMemory wrap(long address, long bytes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public DeviceMemory wrap(ByteBuffer direct) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Stream createStream() {
    check();
    return new Stream();
  }

  @Override
  public Event createEvent() {
    check();
    if (isFull) {
      throw new InternalErrorException("the GPU has no memory", "none");
    }
    return new Event();
  }
}
