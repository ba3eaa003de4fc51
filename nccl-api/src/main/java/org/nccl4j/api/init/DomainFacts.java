package org.nccl4j.api.init;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.plan.RankFacts;
import org.nccl4j.api.plan.Spread;
import org.nccl4j.api.settings.GpuSettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.kernel.KernelDevice;

/**
 * What one rank knows of its device and its ways to the others, for a decision that all take alike.
 * As bytes: kind, reach, nvlink, carried and model, with tabs between them.
 *
 * @param reach whether it loads and stores every other's memory
 * @param nvlink whether over NVLink
 * @param carried whether a proxy carries some of its connections
 */
record DomainFacts(Device.Kind kind, boolean reach, boolean nvlink, boolean carried, String model) {
  private static final String DIRECT = "P2P";

  static DomainFacts of(
      InitRequest request,
      List<PeerInfo> peers,
      List<Routes.NamedTransport> routes,
      boolean carried) {
    Device self = request.device();
    KernelDevice device = (KernelDevice) self;
    boolean reach = routes.stream().allMatch(r -> r == null || r.name().equals(DIRECT));
    boolean nvlink = reach && peers.stream().allMatch(peer -> device.hasNvlink(peer.deviceId()));
    boolean windows =
        !(self instanceof CudaDevice gpu)
            || (gpu.sharingAbsence().isEmpty()
                && request.settings().get(GpuSettings.NCCL_CUMEM_ENABLE));
    // What was measured for a model was measured with windows, and would ask for their space.
    String model = windows ? self.name() : self.name() + " without windows";
    return new DomainFacts(self.kind(), reach, nvlink, carried, model);
  }

  byte[] toBytes() {
    return String.join(
            "\t",
            kind.name(),
            Boolean.toString(reach),
            Boolean.toString(nvlink),
            Boolean.toString(carried),
            model)
        .getBytes(StandardCharsets.UTF_8);
  }

  private static DomainFacts fromBytes(byte[] bytes) {
    String[] words = new String(bytes, StandardCharsets.UTF_8).split("\t", 5);
    return new DomainFacts(
        Device.Kind.valueOf(words[0]),
        Boolean.parseBoolean(words[1]),
        Boolean.parseBoolean(words[2]),
        Boolean.parseBoolean(words[3]),
        words[4]);
  }

  /** What is true of all ranks. */
  static RankFacts common(List<byte[]> all, Hosts hosts) {
    List<DomainFacts> facts = all.stream().map(DomainFacts::fromBytes).toList();
    DomainFacts first = facts.get(0);
    return new RankFacts(
        facts.size(),
        first.kind,
        facts.stream().allMatch(f -> f.model.equals(first.model)) ? first.model : "",
        facts.stream().allMatch(DomainFacts::reach),
        facts.stream().allMatch(DomainFacts::nvlink),
        new Spread(hosts.count(), hosts.mostRanks(), facts.stream().anyMatch(DomainFacts::carried)),
        Optional.empty());
  }
}
