package org.nccl4j.it.perf.peer;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.wire.InterfaceFilter;
import org.nccl4j.api.wire.Interfaces;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.it.file.TemporaryFolder;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/** Open MPI's ranks, each with a connection of its own on which it sleeps until an order comes. */
public final class MpiPeer implements Peer {
  /**
   * A start takes a second or two as a rule; one in some dozens, with ranks on several hosts, never
   * ends: mpirun 4.1.4 stands still, without any program of ours too.
   */
  private static final int START_MILLIS = 20_000;

  private static final int STARTS = 3;
  private static final int ANSWER_MILLIS = 180_000;

  private final OpenMpi mpi;
  private final TemporaryFolder folder;
  private final Process process;
  private final List<Socket> connections = new ArrayList<>();
  private final List<BufferedReader> answers = new ArrayList<>();

  private MpiPeer(OpenMpi mpi, TemporaryFolder folder, Process process) {
    this.mpi = mpi;
    this.folder = folder;
    this.process = process;
    folder.endFirst(process::destroy);
  }

  /**
   * Compiles and starts them.
   *
   * @param bufferBytes the largest buffer
   * @param placement where; on other hosts they talk over TCP
   * @throws NcclException if Open MPI is missing or does not start
   */
  public static MpiPeer start(int nRanks, long bufferBytes, Placement placement) {
    MpiPeer started = null;
    for (int left = STARTS; started == null; left--) {
      started = start(nRanks, bufferBytes, placement, left > 1);
    }
    return started;
  }

  /** Starts them once; null if mpirun does not come to an end with that and may be tried again. */
  private static MpiPeer start(
      int nRanks, long bufferBytes, Placement placement, boolean mayTryAgain) {
    InetAddress here = placement.isHere() ? InetAddress.getLoopbackAddress() : outward();
    TemporaryFolder folder = null;
    MpiPeer peer = null;
    try (ServerSocket server = new ServerSocket(0, nRanks, here)) {
      folder = TemporaryFolder.create("nccl4j-mpi");
      OpenMpi mpi = OpenMpi.find(folder.path());
      byte[] random = new byte[16];
      new SecureRandom().nextBytes(random);
      String token = HexFormat.of().formatHex(random);
      List<String> program =
          List.of(
              mpi.program().toString(),
              here.getHostAddress(),
              Integer.toString(server.getLocalPort()),
              token,
              Long.toString(bufferBytes),
              placement.isHere() ? "none" : "core");
      List<String> command = MpiCommand.of(nRanks, placement, folder.path(), program);
      File output = folder.path().resolve("output").toFile();
      Process process =
          new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output).start();
      peer = new MpiPeer(mpi, folder, process);
      try {
        peer.accept(server, nRanks, token);
      } catch (IOException | NcclException e) {
        NcclException failure = peer.failure("did not start (" + e.getMessage() + ")");
        boolean stands = process.isAlive();
        process.destroy();
        peer.close();
        if (stands && mayTryAgain) {
          return null;
        }
        throw failure;
      }
      return peer;
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.COMPARISON,
          "Open MPI's ranks cannot be started: " + IoErrorText.of(e),
          "see that there is room in /tmp",
          e);
    } finally {
      if (peer == null && folder != null) {
        folder.close();
      }
    }
  }

  /** This machine's address for others: of the interface that our ranks use first. */
  private static InetAddress outward() {
    return outward(Settings.ofProcess(Map.of()).get(Settings.NCCL_SOCKET_IFNAME));
  }

  static InetAddress outward(String interfaces) {
    // The program of Open MPI's ranks takes addresses of IPv4.
    InterfaceFilter filter = new InterfaceFilter(interfaces, "AF_INET");
    Interfaces found = Interfaces.find(filter);
    if (!filter.selects() && found.outward().isEmpty()) {
      throw new SystemErrorException(
          ErrorId.COMPARISON,
          "this machine has no network interface that is up with an IPv4 address, but loopback",
          "leave out --compare mpi, or name an interface by NCCL_SOCKET_IFNAME");
    }
    return found.addresses(1).get(0);
  }

  private void accept(ServerSocket server, int nRanks, String token) throws IOException {
    Socket[] byRank = new Socket[nRanks];
    BufferedReader[] readers = new BufferedReader[nRanks];
    long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(START_MILLIS);
    server.setSoTimeout(500);
    for (int known = 0; known < nRanks; ) {
      if (!process.isAlive() || System.nanoTime() > deadline) {
        throw new IOException("%d of %d ranks came".formatted(known, nRanks));
      }
      try {
        Socket socket = server.accept();
        socket.setTcpNoDelay(true);
        socket.setSoTimeout(5000);
        BufferedReader reader =
            new BufferedReader(
                new InputStreamReader(socket.getInputStream(), StandardCharsets.US_ASCII));
        String hello = reader.readLine();
        if (hello == null || !hello.startsWith(token + " ")) {
          socket.close();
          continue;
        }
        int rank = Integer.parseInt(hello.substring(token.length() + 1));
        socket.setSoTimeout(ANSWER_MILLIS);
        byRank[rank] = socket;
        readers[rank] = reader;
        known++;
      } catch (SocketTimeoutException e) {
        // Nobody yet: look at the process and the clock again.
        continue;
      }
    }
    connections.addAll(List.of(byRank));
    answers.addAll(List.of(readers));
  }

  @Override
  public String name() {
    return "mpi";
  }

  @Override
  public String version() {
    return mpi.version();
  }

  @Override
  public boolean resembles(Cell cell) {
    return cell.inPlace() == (cell.workload() == Workload.BROADCAST);
  }

  @Override
  public double micros(Cell cell, int warmup, int iterations) {
    String order =
        "%s %s %s %d %d %d %d\n"
            .formatted(
                cell.workload().label(),
                cell.type().label(),
                cell.op().label(),
                cell.root(),
                cell.elements(),
                warmup,
                iterations);
    byte[] bytes = order.getBytes(StandardCharsets.US_ASCII);
    try {
      for (Socket connection : connections) {
        connection.getOutputStream().write(bytes);
      }
      double nanos = 0;
      for (BufferedReader answer : answers) {
        String line = answer.readLine();
        if (line == null) {
          throw failure("ended");
        }
        nanos += Long.parseLong(line);
      }
      return nanos / answers.size() / iterations / 1e3;
    } catch (IOException e) {
      throw failure("does not answer (" + e.getMessage() + ")");
    }
  }

  private NcclException failure(String what) {
    String output = "";
    try {
      output = Files.readString(folder.path().resolve("output")).strip();
    } catch (IOException e) {
      output = "(its output cannot be read: " + IoErrorText.of(e) + ")";
    }
    return new RemoteException(
        "Open MPI " + what + (output.isEmpty() ? "" : "; it printed:\n" + output),
        "see what it printed, and that 'mpirun hostname' works");
  }

  @Override
  public void close() {
    try {
      for (Socket connection : connections) {
        connection.close();
      }
      if (!process.waitFor(5, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.COMPARISON,
          "the connections to Open MPI's ranks cannot be closed: " + IoErrorText.of(e),
          "run the command again",
          e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      folder.close();
    }
  }
}
