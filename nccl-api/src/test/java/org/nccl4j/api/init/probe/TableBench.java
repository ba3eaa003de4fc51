package org.nccl4j.api.init.probe;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.ToDoubleFunction;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/** A rank's bench without a device: its times are given, and each measurement moves a clock. */
final class TableBench implements ProbeBench {
  final List<String> calls = new ArrayList<>();
  private final Predicate<ProbeCell> has;
  private final ToDoubleFunction<ProbeCell> times;
  private final long nanosOfCell;
  private ProbeCell prepared;
  long now;
  boolean idle = true;

  /** The call that fails, or "". */
  String fails = "";

  TableBench(Predicate<ProbeCell> has, ToDoubleFunction<ProbeCell> times, long nanosOfCell) {
    this.has = has;
    this.times = times;
    this.nanosOfCell = nanosOfCell;
  }

  private void call(String name) {
    calls.add(name);
    if (fails.equals(name)) {
      throw new InvalidUsageException(name + " fails", "nothing");
    }
  }

  @Override
  public void allocate() {
    call("allocate");
  }

  @Override
  public void register() {
    call("register");
  }

  @Override
  public boolean has(ProbeCell cell) {
    return has.test(cell);
  }

  @Override
  public void prepare(ProbeCell cell) {
    call("prepare");
    prepared = cell;
  }

  @Override
  public double measure(ProbeCell cell) {
    call("measure");
    if (!cell.equals(prepared)) {
      throw new IllegalStateException(cell + " was not prepared");
    }
    now += nanosOfCell;
    return times.applyAsDouble(cell);
  }

  @Override
  public boolean isIdle() {
    return idle;
  }

  @Override
  public void deregister() {
    call("deregister");
  }

  @Override
  public void free() {
    call("free");
  }

  @Override
  public NcclException stuck() {
    return new InvalidUsageException("stuck", "nothing");
  }
}
