package org.nccl4j.it.doctor;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import org.nccl4j.api.settings.Settings;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Looks at everything that nccl4j uses of this machine. */
@Command(
    name = "doctor",
    description =
        "Reports what works on this machine, what does not, why, and how to repair it. Exit"
            + " status 1 if nothing can work, else 0.",
    mixinStandardHelpOptions = true,
    sortOptions = false)
public final class DoctorCommand implements Callable<Integer> {
  @Spec private CommandSpec spec;

  @Option(
      names = {"--json"},
      description = "Prints JSON.")
  private boolean json;

  @Option(
      names = {"--all"},
      description = "Print all settings, not only those that are set, and the times of copies.")
  private boolean everySetting;

  /** Called by picocli. */
  public DoctorCommand() {}

  @Override
  public Integer call() {
    PrintWriter out = spec.commandLine().getOut();
    SettingExaminations.markTold();
    List<Examination> examinations = new ArrayList<>(SystemExaminations.all());
    examinations.addAll(DeviceExaminations.all());
    if (SystemExaminations.onLinux()) {
      examinations.addAll(InfiniBandExaminations.all());
      examinations.addAll(LibncclExaminations.all());
      examinations.addAll(ToolExaminations.all());
    }
    examinations.addAll(SettingExaminations.all());
    List<Finding> findings = new ArrayList<>();
    for (Examination examination : examinations) {
      List<Finding> part = examination.findings();
      findings.addAll(part);
      if (!json) {
        part.forEach(finding -> print(finding, out));
      }
    }
    boolean works = findings.stream().noneMatch(Finding::fatal) && !isHostUnknown(findings);
    if (json) {
      out.println(text(findings, works));
    } else {
      SettingExaminations.entries().stream()
          .filter(entry -> everySetting || !isDefault(entry))
          .forEach(entry -> print(entry, out));
      out.println(conclusion(findings));
    }
    out.flush();
    return works ? 0 : 1;
  }

  private static boolean isHostUnknown(List<Finding> findings) {
    return findings.stream()
        .anyMatch(
            each ->
                each.subject().equals(DeviceExaminations.HOST) && !each.isGood() && !each.fatal());
  }

  /** The last line. */
  static String conclusion(List<Finding> findings) {
    if (findings.stream().allMatch(Finding::isGood)) {
      return "All requirements are met on this machine.";
    }
    List<String> wrong =
        findings.stream().filter(Finding::fatal).map(Finding::subject).distinct().toList();
    if (!wrong.isEmpty()) {
      return DeviceExaminations.OF_GPUS.containsAll(wrong) && !isHostUnknown(findings)
          ? "Communicators on GPUs may fail until the lines with WRONG are repaired; those of the"
              + " host device work."
          : "No communicator can be created until the lines with WRONG are repaired.";
    }
    if (isHostUnknown(findings)) {
      return "It is unknown whether communicators work here: see the line of the host device.";
    }
    boolean gpus =
        findings.stream().anyMatch(each -> each.subject().equals("cuda") && each.isGood());
    return "Communicators "
        + (gpus ? "" : "of the host device ")
        + "work here; the lines with MISSING and WARN say what does not.";
  }

  private void print(Finding finding, PrintWriter out) {
    boolean isShort =
        !everySetting
            && finding.subject().equals(DeviceExaminations.COPIES)
            && finding.detail().contains("(last kept");
    String detail =
        isShort ? "copy routines measured; --all shows which are used" : finding.detail();
    out.printf("%-8s %-14s %s%n", finding.status(), finding.subject(), detail);
    if (!finding.fix().isEmpty()) {
      out.printf("%-23s fix: %s%n", "", finding.fix());
    }
    out.flush();
  }

  /** A setting's name and value, and where it was set unless it was not. */
  private static void print(Settings.Entry entry, PrintWriter out) {
    String origin = isDefault(entry) ? "" : "  (" + entry.origin() + ")";
    out.printf("SETTING  %s=%s%s%n", entry.setting().name(), entry.value(), origin);
  }

  private static boolean isDefault(Settings.Entry entry) {
    return entry.origin().equals("default");
  }

  private static String text(List<Finding> findings, boolean usable) {
    StringWriter text = new StringWriter();
    try (JsonGenerator generator = new JsonFactory().createGenerator(text)) {
      generator.useDefaultPrettyPrinter();
      generator.writeStartObject();
      generator.writeBooleanField("usable", usable);
      generator.writeArrayFieldStart("findings");
      for (Finding finding : findings) {
        generator.writeStartObject();
        generator.writeStringField("subject", finding.subject());
        generator.writeStringField("status", finding.status().name());
        generator.writeStringField("detail", finding.detail());
        generator.writeStringField("fix", finding.fix());
        generator.writeBooleanField("required", finding.required());
        generator.writeEndObject();
      }
      generator.writeEndArray();
      write(SettingExaminations.entries(), generator);
      generator.writeEndObject();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return text.toString();
  }

  private static void write(List<Settings.Entry> entries, JsonGenerator generator)
      throws IOException {
    generator.writeArrayFieldStart("settings");
    for (Settings.Entry entry : entries) {
      generator.writeStartObject();
      generator.writeStringField("name", entry.setting().name());
      generator.writeStringField("value", entry.value());
      generator.writeStringField("origin", entry.origin());
      generator.writeStringField("allowed", entry.setting().allowed());
      generator.writeStringField("purpose", entry.setting().sentence());
      generator.writeEndObject();
    }
    generator.writeEndArray();
  }
}
