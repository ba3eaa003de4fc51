package org.nccl4j.transport.net.ib.control;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.device.HotPath;

/**
 * The TCP connection over which two ends tell each other their queue pairs, and which stays open so
 * that each learns when the other closes or dies. Never blocks. Owned by one thread at a time.
 *
 * <p>It begins with the {@link Handshake}, so each end has proved that it knows the communicator's
 * secret before it is told where the other end's memory is:
 *
 * <pre>
 *   sender                                 receiver
 *   RemoteQpInfo, signature         --&gt;
 *                                   &lt;--    RemoteQpInfo, signature
 *   a byte: it is ready             --&gt;
 *   FailoverMessage, signature          &lt;-&gt;    FailoverMessage, signature    (any time, any number)
 *   a byte: goodbye                 --&gt;
 * </pre>
 *
 * <p>Signatures are of the handshake: none can be forged, nor said again to another connection or
 * in the other direction. All of it goes by TLS where the user has set that.
 */
public final class ControlConnection implements AutoCloseable {
  private static final byte GOODBYE = 2;

  private final SocketChannel socket;
  private final ByteChannel channel;
  private final Handshake handshake;
  private final ByteBuffer in =
      ByteBuffer.allocateDirect(FailoverMessage.BYTES + Handshake.PROOF_BYTES);
  private boolean goodbye;
  private boolean over;
  private ByteBuffer out = ByteBuffer.allocate(0);

  /** Over a connection whose ends know each other. */
  public ControlConnection(PendingHandshake proved) {
    this.socket = proved.socket();
    this.channel = proved.channel();
    this.handshake = proved.handshake();
  }

  /** Begins to send a description of this end. */
  public void sendEnd(RemoteQpInfo end) {
    byte[] message = end.encode();
    out = ByteBuffer.allocate(message.length + Handshake.PROOF_BYTES);
    out.put(message).put(handshake.sign(message)).flip();
  }

  /** Begins to send a byte that says that this end is ready. */
  public void sendReady() {
    out = ByteBuffer.wrap(new byte[] {1});
  }

  /** Sends more of what has begun, and says whether all is sent. */
  public boolean flush() throws IOException {
    if (out.hasRemaining()) {
      channel.write(out);
    }
    return !out.hasRemaining();
  }

  /**
   * The other end's description once it has come, else null.
   *
   * @throws java.net.ProtocolException if it does not know the secret
   */
  public RemoteQpInfo receiveEnd() throws IOException {
    if (!fill(RemoteQpInfo.BYTES + Handshake.PROOF_BYTES)) {
      return null;
    }
    byte[] message = new byte[RemoteQpInfo.BYTES];
    byte[] signature = new byte[Handshake.PROOF_BYTES];
    in.get(message).get(signature);
    in.clear();
    handshake.verify(message, signature);
    return RemoteQpInfo.decode(message);
  }

  /** True if the other end has said that it is ready. */
  public boolean receiveReady() throws IOException {
    if (!fill(1)) {
      return false;
    }
    in.clear();
    return true;
  }

  /** Says that this end closes in order: all that it had to send has been received. */
  public void sayGoodbye() {
    try {
      if (flush()) {
        channel.write(ByteBuffer.wrap(new byte[] {GOODBYE}));
      }
    } catch (IOException e) {
      return; // the other end is gone already, and hears nothing
    }
  }

  /** Begins to send a message, behind those that are being sent. */
  public void send(FailoverMessage message) {
    byte[] bytes = message.encode();
    ByteBuffer all = ByteBuffer.allocate(out.remaining() + bytes.length + Handshake.PROOF_BYTES);
    out = all.put(out).put(bytes).put(handshake.sign(bytes)).flip();
    goOn();
  }

  /** Sends more of what has begun. */
  public void goOn() {
    try {
      flush();
    } catch (IOException e) {
      over = !goodbye;
    }
  }

  /**
   * Registers what the other end may say with a selector.
   *
   * @return false if something is to be done although the other end says nothing
   */
  public boolean mayRest(Selector selector) throws IOException {
    if (goodbye) {
      return true; // it says nothing any more
    }
    if (over || out.hasRemaining()) {
      return false;
    }
    socket.register(selector, SelectionKey.OP_READ);
    return true;
  }

  /** Takes the other end's next message; null if none has come. */
  public FailoverMessage poll() {
    if (goodbye || over) {
      return null;
    }
    try {
      return hasMessage() ? take() : null;
    } catch (IOException e) {
      over = true;
      return null;
    }
  }

  /** True if a message has come whole. */
  @HotPath
  private boolean hasMessage() throws IOException {
    if (in.position() == 0) {
      in.limit(1);
      int read = channel.read(in);
      over = read < 0;
      if (read <= 0) {
        return false;
      }
      if (in.get(0) == GOODBYE) {
        goodbye = true;
        return false;
      }
      in.limit(FailoverMessage.BYTES + Handshake.PROOF_BYTES);
    }
    over = channel.read(in) < 0;
    return !in.hasRemaining();
  }

  private FailoverMessage take() throws IOException {
    byte[] message = new byte[FailoverMessage.BYTES];
    byte[] signature = new byte[Handshake.PROOF_BYTES];
    in.flip().get(message).get(signature);
    in.clear();
    handshake.verify(message, signature);
    return FailoverMessage.decode(message);
  }

  /** True if the other end has closed or died without a goodbye, as far as {@link #poll} knows. */
  public boolean isOver() {
    return over;
  }

  /** True if the other end has closed in order. */
  public boolean hasGoodbye() {
    return goodbye;
  }

  /** Reads until there are so many bytes; then they can be taken from the begin of the buffer. */
  private boolean fill(int bytes) throws IOException {
    in.limit(bytes);
    if (in.hasRemaining() && channel.read(in) < 0) {
      throw new ClosedChannelException();
    }
    if (in.hasRemaining()) {
      return false;
    }
    in.flip();
    return true;
  }

  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException e) {
      // The connection is of no use any more in either case.
      return;
    }
  }
}
