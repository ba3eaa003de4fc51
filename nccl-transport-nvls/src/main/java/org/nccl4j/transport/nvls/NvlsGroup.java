package org.nccl4j.transport.nvls;

import java.lang.System.Logger;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.multicast.Multicast;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.api.multicast.MulticastProvider.Outline;
import org.nccl4j.api.multicast.MulticastProvider.Team;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.MulticastObject;
import org.nccl4j.device.kernel.MulticastObject.Form;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.device.symmetric.ShareableMemory;

/**
 * The multicast object of the ranks of one machine, each on a device of its own. All ranks of a
 * communicator take its steps together, also those of other machines, so that all of them have
 * theirs or none has.
 */
final class NvlsGroup {
  private static final Logger LOG = DebugLog.of("NVLS");
  private static final int CHUNK_MULTIPLE = 512;

  /** Before the layout of a member whose switch combines floats of 8 bits. */
  private static final String BYTES = "bytes ";

  private static final int MOST_HEADS = NvlsLayout.MOST_HEADS;

  private final TransportContext context;
  private final Team team;
  private final Form form;
  private final CollectiveSteps agreement;

  /** True if all members' switches combine floats of 8 bits; known with the layout. */
  private boolean combinesBytes;

  NvlsGroup(TransportContext context, Team team, Form form, CollectiveSteps agreement) {
    this.context = context;
    this.team = team;
    this.form = form;
    this.agreement = agreement;
  }

  /** The place of this rank, for memory that is made later. */
  Outline outline() {
    try {
      NvlsLayout layout = layout();
      MulticastMemory none = new MulticastMemory(isEmulated(), List.of());
      return new Outline(Optional.of(place(layout, null, none)), reason(layout));
    } catch (CollectiveSteps.Refused e) {
      return new Outline(Optional.empty(), e.getMessage());
    }
  }

  private Nvls place(NvlsLayout layout, DeviceMemory unicast, MulticastMemory multicast) {
    return new Nvls(
        layout,
        team.members(),
        team.heads(),
        team.heads().indexOf(context.rank()),
        unicast,
        multicast,
        List.of(),
        1,
        combinesBytes);
  }

  Multicast make() {
    MulticastObject[] object = new MulticastObject[1];
    try {
      NvlsLayout layout = layout();
      agreement.take(
          "make its part of a multicast object",
          () -> {
            object[0] = ((KernelDevice) context.device()).multicast(form, group(layout.bytes()));
            object[0].create();
            return "";
          });
      finish(object[0], agreement);
      if (isTested()) {
        check(object[0], layout).run(agreement);
      }
      Nvls nvls = place(layout, object[0].unicast(), object[0].multicast());
      return new NvlsMulticast(this, nvls, reason(layout), object[0]);
    } catch (CollectiveSteps.Refused e) {
      undo(object[0]);
      return new NvlsMulticast(this, null, e.getMessage(), null);
    } catch (RuntimeException | Error e) {
      undo(object[0]);
      throw e;
    }
  }

  /**
   * Makes a multicast object of the driver of memory that the members have.
   *
   * @param bytes of the memory of the member that has least
   * @throws CollectiveSteps.Refused the same on all ranks; then nothing is left of it
   */
  MulticastObject coverOf(ShareableMemory own, long bytes, Exchange exchange)
      throws CollectiveSteps.Refused {
    CollectiveSteps steps = new CollectiveSteps(exchange);
    MulticastObject[] object = new MulticastObject[1];
    try {
      steps.take(
          "make its part of a multicast object for a window",
          () -> {
            object[0] = ((KernelDevice) context.device()).multicastOf(own, group(bytes));
            object[0].create();
            return "";
          });
      finish(object[0], steps);
      return object[0];
    } catch (CollectiveSteps.Refused | RuntimeException | Error e) {
      undo(object[0]);
      throw e;
    }
  }

  private MulticastObject.Group group(long bytes) {
    return new MulticastObject.Group(
        team.members().indexOf(context.rank()), team.members().size(), bytes, needsFabric());
  }

  /** True if not all members can pass file descriptors to each other. */
  private boolean needsFabric() {
    PeerInfo first = context.peers().get(team.members().get(0));
    return team.members().stream().anyMatch(rank -> !first.sharesHost(context.peers().get(rank)));
  }

  /** The steps after each member has made its part. */
  private void finish(MulticastObject object, CollectiveSteps steps)
      throws CollectiveSteps.Refused {
    if (needsFabric()) {
      exchangeHandles(object, steps);
    } else {
      new DescriptorExchange(context, team.members(), steps).meet(object);
    }
    steps.take("add its device to the multicast object", step(object::addDevice));
    steps.take("bind its memory to the multicast object", step(object::bind));
    steps.take("map the multicast object", step(object::map));
  }

  /** Brings fabric handles, which are bytes, to the members that want them. */
  private void exchangeHandles(MulticastObject object, CollectiveSteps steps)
      throws CollectiveSteps.Refused {
    List<String> handles =
        steps.take(
            "give a fabric handle of the multicast object",
            () -> HexFormat.of().formatHex(object.fabricHandle()));
    steps.take(
        "take a fabric handle of the multicast object",
        () -> {
          for (int member = 0; member < team.members().size(); member++) {
            if (object.wants(member)) {
              String handle = handles.get(team.members().get(member));
              object.accept(member, HexFormat.of().parseHex(handle));
            }
          }
          return "";
        });
  }

  /** True if the object is tested; the emulation on GPUs is a loop over memories. */
  private boolean isTested() {
    return context.get(Settings.NCCL4J_NVLS_TEST)
        && (form == Form.DRIVER || context.device().kind() == Device.Kind.HOST);
  }

  private ObjectCheck check(MulticastObject object, NvlsLayout layout) {
    return new ObjectCheck(
        (KernelDevice) context.device(),
        object.unicast(),
        object.unicast().slice(layout.broadcast(0), ObjectCheck.BYTES),
        object.multicast(),
        team.members().indexOf(context.rank()),
        team.members().size(),
        combinesBytes);
  }

  /** The measurement of an object of this group. */
  SwitchTiming timing(MulticastObject object, NvlsLayout layout) {
    int head = team.heads().indexOf(context.rank());
    return new SwitchTiming((KernelDevice) context.device(), object.multicast(), layout, head);
  }

  boolean isEmulated() {
    return form == Form.EMULATED;
  }

  private static CollectiveSteps.Step step(Runnable step) {
    return () -> {
      step.run();
      return "";
    };
  }

  /**
   * Gives up the resources made so far. A step that cannot be undone is logged and not thrown: all
   * ranks go on without NVLS, or with the failure that brought them here.
   */
  private void undo(MulticastObject object) {
    if (object != null) {
      try {
        object.close();
      } catch (NcclException e) {
        LOG.log(
            Logger.Level.WARNING,
            "rank {0} could not undo its part of a multicast object: {1}; {2}",
            context.rank(),
            e.problem(),
            e.remedy());
      }
    }
  }

  /** The layout of all ranks. */
  private NvlsLayout layout() throws CollectiveSteps.Refused {
    NvlsLayout[] mine = new NvlsLayout[1];
    List<String> all =
        agreement.take(
            "lay its buffers out",
            () -> {
              check("to be heads", team.heads().size());
              if (form == Form.EMULATED && context.device().kind() == Device.Kind.CUDA) {
                check("of a machine", team.members().size()); // the kernels look at each
              }
              boolean host = context.device().kind() == Device.Kind.HOST;
              int chunk = context.get(Settings.NCCL_NVLS_CHUNKSIZE);
              mine[0] =
                  new NvlsLayout(
                      team.heads().size(),
                      host ? 1 : channels(),
                      chunk == 0
                          ? defaultChunk(host)
                          : (chunk + CHUNK_MULTIPLE - 1) / CHUNK_MULTIPLE * CHUNK_MULTIPLE);
              return (combinesBytes() ? BYTES : "") + mine[0];
            });
    List<String> layouts = all.stream().map(each -> each.replaceFirst(BYTES, "")).toList();
    for (int rank = 0; rank < all.size(); rank++) {
      if (!layouts.get(rank).equals(layouts.get(0))) {
        throw new CollectiveSteps.Refused(
            "rank %d lays buffers out as %s, rank 0 as %s; set NCCL_NVLS_* and NCCL_*_CTAS alike on all ranks"
                .formatted(rank, layouts.get(rank), layouts.get(0)));
      }
    }
    combinesBytes = all.stream().allMatch(each -> each.startsWith(BYTES));
    return mine[0];
  }

  private boolean combinesBytes() {
    return form == Form.DRIVER && ((KernelDevice) context.device()).switchCombinesBytes();
  }

  private static void check(String which, int ranks) throws CollectiveSteps.Refused {
    if (ranks > MOST_HEADS) {
      throw new CollectiveSteps.Refused(
          "there are %d ranks %s, and NVLS has at most %d".formatted(ranks, which, MOST_HEADS));
    }
  }

  /**
   * Returns the number of channels that are asked for, within the limits of an operation on a GPU.
   */
  private int channels() {
    int asked = context.get(Settings.NCCL_NVLS_NCHANNELS);
    int least =
        Math.max(context.get(Settings.NCCL_MIN_CTAS), asked == 0 ? defaultChannels() : asked);
    int most = Math.min(context.get(Settings.NCCL_MAX_CTAS), team.most());
    return Math.min(most, least);
  }

  /** The emulation's heads load from every rank: more of them in flight than the switch needs. */
  private int defaultChannels() {
    if (form == Form.EMULATED) {
      return 64;
    }
    return team.channels() > 0 ? Math.min(team.channels(), ConnectionLayout.CHANNELS) : 16;
  }

  private int defaultChunk(boolean host) {
    return form == Form.DRIVER ? 128 << 10 : host ? 64 << 10 : 32 << 10;
  }

  private String reason(NvlsLayout layout) {
    return "%s, heads %s, %d channels, chunks of %d bytes, %d bytes a rank"
        .formatted(
            form == Form.DRIVER ? "by the switch" : "emulated",
            team.heads(),
            layout.nChannels(),
            layout.chunkBytes(),
            layout.bytes());
  }
}
