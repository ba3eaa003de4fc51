package org.nccl4j.testkit;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportProvider;

/** Rank 1 of 2, started by {@link PeerProcess} with a provider's class and its settings. */
final class PeerMain {
  private PeerMain() {}

  /** Says its handles, is told the other's, connects, exchanges steps, and closes when told to. */
  public static void main(String[] arguments) throws IOException, ReflectiveOperationException {
    TransportProvider provider =
        (TransportProvider) Class.forName(arguments[0]).getConstructor().newInstance();
    Map<String, String> settings = new HashMap<>();
    for (int i = 1; i < arguments.length; i++) {
      String[] pair = arguments[i].split("=", 2);
      settings.put(pair[0], pair[1]);
    }
    ContractContext context = ContractContext.ofTwoProcesses(1, settings);
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (Transport transport = provider.open(context)) {
      run(transport, context.peers().get(0), in);
    }
    System.out.println("closed");
  }

  private static void run(Transport transport, PeerInfo peer, BufferedReader in)
      throws IOException {
    Connector sender = transport.sender(peer);
    Connector receiver = transport.receiver(peer);
    HexFormat hex = HexFormat.of();
    System.out.println(
        "handles " + hex.formatHex(sender.handle()) + " " + hex.formatHex(receiver.handle()));
    String[] handles = in.readLine().split(" ", -1);
    ProcessChecks.Ends.connect(
        sender, receiver, hex.parseHex(handles[0]), hex.parseHex(handles[1]));
    System.out.println("connected");
    ProcessChecks.Ends.exchange(sender, receiver);
    System.out.println("exchanged");
    in.readLine();
  }
}
