package org.nccl4j.api.init;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.nccl4j.api.plan.RankFacts;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.KernelDevice;

/**
 * What one rank knows of its device and its ways to the others, for a decision that all take alike.
 * As bytes: kind, reach, nvlink and model, with tabs between them.
 *
 * @param reach whether it loads and stores every other's memory
 * @param nvlink whether over NVLink
 */
record DomainFacts(Device.Kind kind, boolean reach, boolean nvlink, String model) {
  private static final String DIRECT = "P2P";

  static DomainFacts of(
      KernelDevice device, Device self, List<PeerInfo> peers, List<Routes.NamedTransport> routes) {
    boolean reach = routes.stream().allMatch(r -> r == null || r.name().equals(DIRECT));
    boolean nvlink = reach && peers.stream().allMatch(peer -> device.hasNvlink(peer.deviceId()));
    return new DomainFacts(self.kind(), reach, nvlink, self.name());
  }

  byte[] toBytes() {
    return String.join("\t", kind.name(), Boolean.toString(reach), Boolean.toString(nvlink), model)
        .getBytes(StandardCharsets.UTF_8);
  }

  private static DomainFacts fromBytes(byte[] bytes) {
    String[] words = new String(bytes, StandardCharsets.UTF_8).split("\t", 4);
    return new DomainFacts(
        Device.Kind.valueOf(words[0]),
        Boolean.parseBoolean(words[1]),
        Boolean.parseBoolean(words[2]),
        words[3]);
  }

  /** What is true of all ranks. */
  static RankFacts common(List<byte[]> all) {
    List<DomainFacts> facts = all.stream().map(DomainFacts::fromBytes).toList();
    DomainFacts first = facts.get(0);
    return new RankFacts(
        facts.size(),
        first.kind,
        facts.stream().allMatch(f -> f.model.equals(first.model)) ? first.model : "",
        facts.stream().allMatch(DomainFacts::reach),
        facts.stream().allMatch(DomainFacts::nvlink));
  }
}
