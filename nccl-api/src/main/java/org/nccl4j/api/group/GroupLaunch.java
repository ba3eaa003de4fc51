package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;

/**
 * Launches a group's operations. Those of several ranks that one thread drives are launched by a
 * thread for each on GPUs, as long as there are processors for them: a launch takes a thread about
 * as long as a small operation takes a GPU, and one device after the other would keep the first
 * waiting for the last. Communicators that share connections are launched by one, in the order of
 * their first calls, which is the same on all ranks.
 */
final class GroupLaunch {
  /** To ask takes longer than to launch. */
  private static final int PROCESSORS = Runtime.getRuntime().availableProcessors();

  private GroupLaunch() {}

  /** Launches; the first error with the others, after everything that can be launched has been. */
  static void of(List<Task> tasks) {
    List<Part> parts = parts(tasks);
    boolean together = parts.size() > 1 && PROCESSORS >= 2 * parts.size();
    boolean crowded = false;
    for (int p = 0; p < parts.size(); p++) {
      together &= parts.get(p).isOnGpu();
      for (int q = 0; q < p; q++) {
        crowded |= parts.get(p).isOnGpu() && parts.get(p).device() == parts.get(q).device();
      }
    }
    if (crowded) {
      parts.forEach(Part::prepare);
    }
    if (together) {
      together(parts);
    } else {
      parts.forEach(Part::run);
    }
  }

  /** A communicator's operations. */
  private record Share(RankQueue queue, List<Task> tasks) {}

  /** Operations of one rank, by one communicator or by several that launch in one order. */
  private static final class Part implements Runnable {
    final Object order;
    final List<Share> shares = new ArrayList<>(1);
    LaunchThread on; // null where the caller launches

    Part(Object order) {
      this.order = order;
    }

    void add(Task task) {
      for (int s = 0; s < shares.size(); s++) {
        if (shares.get(s).queue == task.queue()) {
          shares.get(s).tasks.add(task);
          return;
        }
      }
      Share share = new Share(task.queue(), new ArrayList<>(2));
      share.tasks.add(task);
      shares.add(share);
    }

    Device device() {
      return shares.get(0).queue.device();
    }

    /**
     * Of ranks on one GPU none may have a kernel to load while another's runs: the driver would
     * wait for that one's end, and it for what is launched then.
     */
    void prepare() {
      for (Share share : shares) {
        share.queue.prepare(share.tasks);
      }
    }

    boolean isOnGpu() {
      return shares.get(0).queue.isOnGpu();
    }

    LaunchThread launchThread() {
      return shares.get(0).queue.launchThread();
    }

    /** Also what is captured: that takes launches of any thread. */
    @Override
    public void run() {
      for (int s = 0; s < shares.size(); s++) {
        shares.get(s).queue.launch(shares.get(s).tasks);
      }
    }
  }

  /** There are few, so they are looked through. */
  private static List<Part> parts(List<Task> tasks) {
    List<Part> parts = new ArrayList<>();
    for (int t = 0; t < tasks.size(); t++) {
      Object order = tasks.get(t).queue().order();
      Part found = null;
      for (int p = parts.size() - 1; p >= 0 && found == null; p--) {
        found = parts.get(p).order == order ? parts.get(p) : null;
      }
      if (found == null) {
        found = new Part(order);
        parts.add(found);
      }
      found.add(tasks.get(t));
    }
    return parts;
  }

  /** The caller takes the last: the last device that a thread has called for is often current. */
  private static void together(List<Part> parts) {
    int own = parts.size() - 1;
    for (int p = 0; p < own; p++) {
      Part part = parts.get(p);
      LaunchThread thread = part.launchThread();
      part.on = thread.give(part) ? thread : null;
    }
    Throwable failure = null;
    for (int p = own; p >= 0; p--) {
      failure = with(failure, parts.get(p).on == null ? launch(parts.get(p)) : null);
    }
    for (int p = 0; p < own; p++) {
      failure = with(failure, parts.get(p).on == null ? null : parts.get(p).on.await());
    }
    if (failure instanceof RuntimeException e) {
      throw e;
    } else if (failure instanceof Error e) {
      throw e;
    }
  }

  private static Throwable launch(Part part) {
    try {
      part.run();
      return null;
    } catch (RuntimeException | Error e) {
      return e;
    }
  }

  private static Throwable with(Throwable first, Throwable next) {
    if (first != null && next != null && first != next) {
      first.addSuppressed(next);
    }
    return first == null ? next : first;
  }
}
