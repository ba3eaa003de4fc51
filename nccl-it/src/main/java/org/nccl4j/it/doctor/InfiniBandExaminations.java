package org.nccl4j.it.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.IbReport;

/** InfiniBand and RoCE: the library, the ports with their addresses, and why one cannot be used. */
final class InfiniBandExaminations {
  private static final String LIBRARY = "libibverbs";
  private static final String DEVICES = "infiniband";
  private static final String NEEDED = "; not needed on one machine, and sockets are there";

  private InfiniBandExaminations() {}

  static List<Examination> all() {
    return List.of(new Examination(DEVICES, InfiniBandExaminations::look));
  }

  private static List<Finding> look() {
    IbReport report;
    try {
      report = IbReport.of(Settings.ofProcess(Map.of()));
    } catch (NcclException e) {
      return List.of(Finding.warn(DEVICES, e.problem(), e.remedy()));
    }
    List<Finding> findings = new ArrayList<>();
    findings.add(
        report.libraryLoads()
            ? Finding.ok(LIBRARY, report.library() + " loads")
            : Finding.missing(
                LIBRARY,
                "there is no " + report.library() + ": no InfiniBand or RoCE" + NEEDED,
                "apt-get install libibverbs1 ibverbs-providers"));
    report.ports().forEach(port -> findings.add(Finding.ok(DEVICES, port)));
    report.unusable().forEach((name, why) -> findings.add(unusable(name, why)));
    if (report.ports().isEmpty() && report.unusable().isEmpty()) {
      findings.add(
          Finding.missing(
              DEVICES,
              "no device" + NEEDED,
              report.nothing().isEmpty() ? "install libibverbs first" : report.nothing()));
    }
    return findings;
  }

  private static Finding unusable(String name, String why) {
    return Finding.warn(
        DEVICES,
        name + " is not used: " + why,
        "bring its link up (ip link set up), give it an IP address (ip addr add), correct the"
            + " setting that is named, or leave it out by NCCL_IB_HCA=^"
            + name);
  }
}
