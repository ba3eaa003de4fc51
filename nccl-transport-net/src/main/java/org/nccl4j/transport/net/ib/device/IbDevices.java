package org.nccl4j.transport.net.ib.device;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.verbs.Verbs;

/**
 * The InfiniBand and RoCE devices of this machine, and their usable ports.
 *
 * @param usable ports that may be used, in the library's order
 * @param all every port of every device that could be opened
 * @param rejected why others may not be used, by name
 */
public record IbDevices(List<IbPort> usable, List<IbPort> all, Map<String, String> rejected) {
  private static final Path SYSFS = Path.of("/sys/class/infiniband");
  private static final Path DEVICE_FILES = Path.of("/dev/infiniband");

  /** Looks at every device; leaves none open. */
  public static IbDevices find(Verbs verbs, IbSettings settings) {
    List<IbPort> usable = new ArrayList<>();
    List<IbPort> all = new ArrayList<>();
    Map<String, String> rejected = new LinkedHashMap<>();
    List<Long> devices = verbs.deviceList();
    try {
      for (int i = 1; i < devices.size(); i++) {
        for (IbPort port : ports(verbs, devices.get(i), rejected)) {
          all.add(port);
          String why = whyNot(port, settings);
          if (why.isEmpty()) {
            usable.add(port);
          } else {
            rejected.put(port.name(), why);
          }
        }
      }
    } finally {
      if (!devices.isEmpty()) {
        verbs.freeDeviceList(devices.get(0));
      }
    }
    return new IbDevices(usable, all, rejected);
  }

  private static List<IbPort> ports(Verbs verbs, long device, Map<String, String> rejected) {
    String name = verbs.deviceName(device);
    long context;
    try {
      context = verbs.openDevice(device, name);
    } catch (NcclException e) {
      rejected.put(name, e.problem() + ": " + e.remedy());
      return List.of();
    }
    try {
      return PortReader.read(verbs, device, context);
    } catch (NcclException e) {
      rejected.put(name, e.problem());
      return List.of();
    } finally {
      verbs.closeDevice(context);
    }
  }

  private static String whyNot(IbPort port, IbSettings settings) {
    if (!settings.hca().allows(port.device(), port.port())) {
      return "NCCL_IB_HCA=" + settings.hca().text() + " leaves it out";
    }
    if (port.iwarp()) {
      return "it is iWARP, which has no write with immediate data";
    }
    if (!port.isActive()) {
      return "it is " + port.stateName();
    }
    if (port.ethernet() && port.gids().isEmpty()) {
      return "it has no GID: give its network interface an IP address";
    }
    return "";
  }

  /** Why there is nothing to use, with what to do about it. */
  public String whyNone() {
    if (!rejected.isEmpty()) {
      StringBuilder reasons = new StringBuilder("no usable port: ");
      rejected.forEach((name, why) -> reasons.append(name).append(": ").append(why).append("; "));
      return reasons.substring(0, reasons.length() - 2);
    }
    if (kernelHasDevices() && !hasDeviceFiles()) {
      return "there is no /dev/infiniband/uverbs*, though the kernel has InfiniBand devices: load"
          + " ib_uverbs (modprobe ib_uverbs); in a container pass --device=/dev/infiniband";
    }
    return "libibverbs sees no device: load the adapter's driver; in a container pass"
        + " --device=/dev/infiniband";
  }

  /** True if the kernel has devices, whatever the library sees. */
  public static boolean kernelHasDevices() {
    try (Stream<Path> entries = Files.list(SYSFS)) {
      return entries.findAny().isPresent();
    } catch (IOException e) {
      return false;
    }
  }

  private static boolean hasDeviceFiles() {
    try (Stream<Path> entries = Files.list(DEVICE_FILES)) {
      return entries.anyMatch(entry -> entry.getFileName().toString().startsWith("uverbs"));
    } catch (IOException e) {
      return false;
    }
  }
}
