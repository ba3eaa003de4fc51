package org.nccl4j.testkit;

import java.util.List;
import java.util.stream.Stream;
import org.nccl4j.api.spi.Connector;
import org.nccl4j.api.spi.ProxyHandler;

/** A connection with both ends in this process. */
record Link(Connector sender, Connector receiver) {
  /** The ends of a connection between two transports, not yet connected. */
  static Link between(Mesh mesh, int from, int to) {
    return new Link(
        mesh.transport(from).sender(mesh.peer(to)), mesh.transport(to).receiver(mesh.peer(from)));
  }

  /** Connects all of them, each a step at a time. */
  static void connect(List<Link> links) {
    List<byte[]> senders = links.stream().map(link -> link.sender().handle()).toList();
    List<byte[]> receivers = links.stream().map(link -> link.receiver().handle()).toList();
    Deadline.await(
        () -> {
          boolean all = true;
          for (int i = 0; i < links.size(); i++) {
            all &= links.get(i).sender().connect(receivers.get(i));
            all &= links.get(i).receiver().connect(senders.get(i));
          }
          return all;
        },
        links::toString);
  }

  static Link connected(Mesh mesh, int from, int to) {
    Link link = between(mesh, from, to);
    connect(List.of(link));
    return link;
  }

  /** True if both ends have the same memory, and nothing need be moved between them. */
  boolean isShared() {
    return sender.proxy().isEmpty() && receiver.proxy().isEmpty();
  }

  /** Lets the proxies, if there are, do what they can. */
  void pump() {
    Stream.of(sender, receiver)
        .flatMap(connector -> connector.proxy().stream())
        .forEach(ProxyHandler::doWork);
  }
}
