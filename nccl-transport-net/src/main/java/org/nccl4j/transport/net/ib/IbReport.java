package org.nccl4j.transport.net.ib;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.SettingValues;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.device.GidChoice;
import org.nccl4j.transport.net.ib.device.IbDevices;
import org.nccl4j.transport.net.ib.device.IbPort;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.verbs.Gid;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/**
 * A report of this machine's InfiniBand and RoCE, for people.
 *
 * @param library the library that was asked for
 * @param libraryLoads whether it is there
 * @param ports a line for each port that can be used, with its device and GID
 * @param unusable why others cannot, by name, with the remedy
 * @param nothing why there is nothing at all, with the remedy; empty if there is something
 */
public record IbReport(
    String library,
    boolean libraryLoads,
    List<String> ports,
    Map<String, String> unusable,
    String nothing) {
  /**
   * The devices that communicators would use, with the kinds of memory that they take; empty if
   * there are none.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if a setting has a wrong value
   */
  public static List<NetDevice> devices(SettingValues settings) {
    IbSettings wanted = IbSettings.of(settings);
    try {
      return IbNet.devices(wanted);
    } catch (InvalidArgumentException e) {
      throw e;
    } catch (NcclException | LinkageError e) {
      return List.of(); // the report says why
    }
  }

  /**
   * Looks at the machine, and leaves nothing open.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if a setting has a wrong value
   */
  public static IbReport of(SettingValues settings) {
    IbSettings wanted = IbSettings.of(settings);
    Verbs verbs;
    try {
      verbs = Verbs.load(wanted.library());
    } catch (NcclException | LinkageError e) {
      return new IbReport(wanted.library(), false, List.of(), Map.of(), "");
    }
    IbDevices devices;
    try {
      devices = IbDevices.find(verbs, wanted);
    } catch (NcclException e) {
      return new IbReport(
          wanted.library(), true, List.of(), Map.of(), e.problem() + ": " + e.remedy());
    }
    List<String> ports = new ArrayList<>();
    Map<String, String> unusable = new LinkedHashMap<>(devices.rejected());
    for (IbPort port : devices.usable()) {
      try {
        Gid gid = GidChoice.choose(port, wanted);
        ports.add(port.describe() + "; uses GID " + gid.index());
      } catch (NcclException e) {
        unusable.put(port.name(), e.problem() + ": " + e.remedy());
      }
    }
    boolean empty = ports.isEmpty() && unusable.isEmpty();
    return new IbReport(wanted.library(), true, ports, unusable, empty ? devices.whyNone() : "");
  }
}
