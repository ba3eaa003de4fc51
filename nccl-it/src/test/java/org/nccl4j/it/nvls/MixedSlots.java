package org.nccl4j.it.nvls;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.Devices;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.Device;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.transport.net.NetTransportProvider;
import org.nccl4j.transport.net.ib.IbProvider;

/**
 * A program of one of 32 ranks, with slots in its GPU's memory: connections with neighbours have 32
 * channels and others 16. What is in the words and slots of one end stays there while those of all
 * others are written.
 */
final class MixedSlots {
  private static final int RANKS = 32;

  private MixedSlots() {}

  /** Arguments: the ranks from which it receives, in the order of their ends. */
  public static void main(String[] arguments) {
    NetProvider provider = new IbProvider();
    List<PeerInfo> peers = SlotContext.peers(RANKS, provider);
    Device device = Devices.cuda().list().get(0);
    TransportContext context = new SlotContext(0, peers, device, provider, Map.of(), Map.of());
    Transport transport = new NetTransportProvider().open(context);
    List<List<ByteBuffer>> ends = new ArrayList<>();
    List<Integer> channels = new ArrayList<>();
    for (String peer : arguments) {
      Connection end = transport.receiver(peers.get(Integer.parseInt(peer))).connection();
      channels.add(end.carried());
      ends.add(parts(end, context.layout()));
    }
    for (int end = 0; end < ends.size(); end++) {
      for (ByteBuffer part : ends.get(end)) {
        part.put(0, contents(end, part.capacity()));
      }
    }
    for (int end = 0; end < ends.size(); end++) {
      for (ByteBuffer part : ends.get(end)) {
        ByteBuffer expected = ByteBuffer.wrap(contents(end, part.capacity()));
        SlotKernel.require(part.equals(expected), "end %d is overwritten", end);
      }
    }
    transport.close();
    System.out.println("kept all of " + channels + " channels");
  }

  /** Both sides' words, and what is used of each slot. */
  private static List<ByteBuffer> parts(Connection end, ConnectionLayout layout) {
    int words = (int) ConnectionLayout.CREDIT_BYTES;
    int used = end.carried() * (layout.simpleSlotBytes() / ConnectionLayout.CHANNELS);
    List<ByteBuffer> parts = new ArrayList<>();
    parts.add(LaunchedMessages.view(end.credit().address(), words));
    parts.add(LaunchedMessages.view(end.data().address(), words));
    for (int slot = 0; slot < ConnectionLayout.STEPS; slot++) {
      parts.add(LaunchedMessages.view(end.data().address() + layout.simple(slot), used));
    }
    return parts;
  }

  private static byte[] contents(int end, int bytes) {
    byte[] contents = new byte[bytes];
    Arrays.fill(contents, (byte) (end + 1));
    return contents;
  }
}
