package org.nccl4j.it.doctor;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.SettingsLog;
import org.nccl4j.api.spi.Setting;
import org.nccl4j.device.NcclException;

/** Examines the settings: values, sources and validity. */
final class SettingExaminations {
  private SettingExaminations() {}

  static List<Examination> all() {
    return List.of(new Examination("settings", SettingExaminations::look));
  }

  /** Every setting with its value and origin; none where they cannot be read. */
  static List<Settings.Entry> entries() {
    try {
      return Settings.ofProcess(Map.of()).entries();
    } catch (NcclException e) {
      return List.of();
    }
  }

  /** Keeps out of the log what the findings say: communicators that the doctor creates log it. */
  static void markTold() {
    try {
      SettingsLog.markTold(Settings.ofProcess(Map.of()));
    } catch (NcclException e) {
      // A finding says so.
    }
  }

  private static List<Finding> look() {
    Settings settings;
    try {
      settings = Settings.ofProcess(Map.of());
    } catch (NcclException e) {
      return List.of(Finding.broken("settings", e.problem(), e.remedy()));
    }
    List<Finding> findings = new ArrayList<>();
    for (Setting<?> setting : Settings.declared()) {
      try {
        settings.get(setting);
      } catch (NcclException e) {
        findings.add(Finding.broken("settings", e.problem(), e.remedy()));
      }
    }
    for (String hint : settings.hints()) {
      findings.add(Finding.warn("settings", hint, "correct the name, or unset it"));
    }
    if (findings.isEmpty()) {
      long set = settings.entries().stream().filter(e -> !e.origin().equals("default")).count();
      findings.add(
          Finding.ok(
              "settings",
              "%d of %d are set; --all lists the others"
                  .formatted(set, Settings.declared().size())));
    }
    return findings;
  }
}
