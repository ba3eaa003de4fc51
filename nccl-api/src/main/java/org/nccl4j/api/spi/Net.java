package org.nccl4j.api.spi;

import java.util.List;
import java.util.Optional;

/**
 * One network of one communicator: messages between two ranks over its devices, similar to NCCL's
 * network plug-ins. Called by one thread at a time; each connection too, perhaps by another thread.
 * No call waits.
 *
 * <p>The receiving rank listens and passes the listener's handle to the sending rank, which
 * connects; both are polled until they are connected. Messages then go in one direction. They are
 * matched by tag, and in order within a tag. A message's memory has been registered with its
 * connection.
 *
 * <pre>
 *   receiver                             sender
 *   listener = net.listen(0)
 *   listener.handle()   -- by other means --&gt;
 *                                        sender = net.connect(0, handle)
 *   receiver = listener.accept()         sender.isConnected()
 *   memory = receiver.register(...)      memory = sender.register(...)
 *   r = receiver.irecv(...)              r = sender.isend(...)
 *   r.test(sizes)                        r.test(null)
 * </pre>
 */
public interface Net extends AutoCloseable {
  /**
   * Returns the network's devices; not empty, the same at every call. A device's number is its
   * index in the list.
   */
  List<NetDevice> devices();

  /**
   * Descriptors that this process keeps open for further pairs of connections, each with one in
   * each direction; 0 if unknown.
   */
  default int descriptors(int pairs) {
    return 0;
  }

  /**
   * True if the notes of {@link NetSender#isend(NetMemory, long, int, int, int)} reach the
   * receiver. Without notes different calls of two ranks are found less often.
   */
  default boolean carriesNotes() {
    return false;
  }

  /**
   * True if a connection uses several devices by itself, as far as they are useful to it. Elsewhere
   * the channels of a GPU's connection take turns with the GPU's devices.
   */
  default boolean spreads() {
    return false;
  }

  /**
   * Returns why data go without the encryption of NCCL4J_TLS_CERT and the checksums of
   * NCCL4J_NET_CHECKSUM over this network, as a clause; empty if it obeys both settings, or
   * protects data by its own means. If one is set, a warning gives the reason.
   */
  default Optional<String> unprotected() {
    return Optional.empty();
  }

  /**
   * Begins to listen on a device.
   *
   * @throws org.nccl4j.device.SystemErrorException if the network lacks memory, descriptors or the
   *     device
   */
  NetListener listen(int device);

  /**
   * Begins to connect from a device to a listener of another rank.
   *
   * @param handle the result of {@link NetListener#handle()} there
   * @throws org.nccl4j.device.NcclException if the handle is invalid, or the network lacks memory,
   *     descriptors or the device
   */
  NetSender connect(int device, byte[] handle);

  /**
   * Begins to listen for one of two connections with a rank, one in each direction; {@link
   * #connect(int, int, byte[])} is called later for the other one. A network may let both share a
   * resource such as a socket, which then lives until both are closed. At most one such pair for
   * each rank.
   *
   * @param peer the rank that will connect, and that listens for this one
   */
  default NetListener listen(int device, int peer) {
    return listen(device);
  }

  /**
   * Begins to connect with a rank for which {@link #listen(int, int)} has been called.
   *
   * @param peer the rank whose listener gave the handle
   */
  default NetSender connect(int device, int peer, byte[] handle) {
    return connect(device, handle);
  }

  /** Closes everything that it opened. Calling it again does nothing. */
  @Override
  void close();
}
