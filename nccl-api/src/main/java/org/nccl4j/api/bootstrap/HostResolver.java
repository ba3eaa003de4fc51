package org.nccl4j.api.bootstrap;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.support.DaemonThread;

/** Looks up names in the addresses of an id, within a deadline. */
final class HostResolver {
  private HostResolver() {}

  /** The same addresses, each name replaced by what it stands for. */
  static List<InetSocketAddress> resolve(List<InetSocketAddress> addresses, Deadline deadline) {
    List<InetSocketAddress> resolved = new ArrayList<>();
    for (InetSocketAddress address : addresses) {
      if (!address.isUnresolved()) {
        resolved.add(address);
        continue;
      }
      for (InetAddress host : lookUp(address.getHostString(), deadline)) {
        resolved.add(new InetSocketAddress(host, address.getPort()));
      }
    }
    return resolved;
  }

  /** A resolver may hang for longer than anybody wants to wait, hence the thread. */
  private static InetAddress[] lookUp(String name, Deadline deadline) {
    CompletableFuture<InetAddress[]> answer = new CompletableFuture<>();
    Runnable asking =
        () -> {
          try {
            answer.complete(InetAddress.getAllByName(name));
          } catch (UnknownHostException e) {
            answer.completeExceptionally(e);
          }
        };
    DaemonThread.of(asking, "nccl4j-resolver").start();
    try {
      return answer.get(Math.max(1, deadline.leftNanos()), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InvalidUsageException(
          ErrorId.INTERRUPTED,
          "the thread was interrupted while it looked up the bootstrap root's host",
          "do not interrupt a thread that creates a communicator",
          e);
    } catch (ExecutionException | TimeoutException e) {
      throw new SystemErrorException(
          ErrorId.UNREACHABLE,
          "the bootstrap root's host \"" + name + "\" cannot be resolved to an address",
          "set NCCL_COMM_ID to an address, or to a name that this host can resolve",
          e);
    }
  }
}
