package org.nccl4j.it.perf.report;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.os.IoErrorText;

/** Results as JSON. Bandwidths are in GB/s, sizes as in nccl-tests' size column. */
public final class JsonReport {
  private JsonReport() {}

  /**
   * Writes a file.
   *
   * @throws SystemErrorException if it cannot be written
   */
  public static void write(Report report, Path file) {
    writeText(text(report) + "\n", file);
  }

  static void writeText(String text, Path file) {
    try {
      Files.writeString(file, text);
    } catch (IOException e) {
      throw new SystemErrorException(
          ErrorId.UNWRITABLE,
          file + " cannot be written (" + IoErrorText.of(e) + ")",
          "name a file in an existing folder that you may write to, on a disk with room",
          e);
    }
  }

  /** The text of a report. */
  public static String text(Report report) {
    StringWriter text = new StringWriter();
    try (JsonGenerator json = new JsonFactory().createGenerator(text)) {
      json.useDefaultPrettyPrinter();
      json.writeStartObject();
      machine(json, report.machine());
      json.writeStringField("version", report.version());
      json.writeArrayFieldStart("command");
      for (String word : report.command()) {
        json.writeString(word);
      }
      json.writeEndArray();
      json.writeArrayFieldStart("results");
      for (Result result : report.results()) {
        result(json, result, report.setting());
      }
      json.writeEndArray();
      costs(json, report.costs());
      json.writeEndObject();
    } catch (IOException e) {
      throw new SystemErrorException("a report cannot be written", "report this as a defect", e);
    }
    return text.toString();
  }

  private static void machine(JsonGenerator json, Machine machine) throws IOException {
    json.writeObjectFieldStart("machine");
    json.writeStringField("host", machine.host());
    json.writeStringField("processor", machine.processor());
    json.writeNumberField("cores", machine.cores());
    json.writeNumberField("memoryBytes", machine.memoryBytes());
    json.writeStringField("os", machine.os());
    json.writeStringField("java", machine.java());
    json.writeEndObject();
  }

  private static void costs(JsonGenerator json, List<Costs> all) throws IOException {
    if (all.isEmpty()) {
      return;
    }
    json.writeArrayFieldStart("communicators");
    for (Costs costs : all) {
      json.writeStartObject();
      json.writeStringField("library", costs.library());
      json.writeNumberField("firstMs", costs.firstMillis());
      json.writeNumberField("laterMs", costs.laterMillis());
      json.writeNumberField("closeMs", costs.closeMillis());
      json.writeNumberField("createdBytes", costs.createdBytes());
      json.writeNumberField("usedBytes", costs.usedBytes());
      json.writeNumberField("callUs", costs.callMicros());
      json.writeEndObject();
    }
    json.writeEndArray();
  }

  private static void result(JsonGenerator json, Result result, Report.Setting setting)
      throws IOException {
    json.writeStartObject();
    json.writeStringField("collective", result.cell().workload().label());
    json.writeStringField("device", setting.device());
    json.writeNumberField("ranks", result.nRanks());
    json.writeStringField("mode", setting.mode());
    json.writeStringField("type", result.cell().type().label());
    json.writeStringField("op", result.op());
    json.writeNumberField("root", result.root());
    json.writeNumberField("bytes", result.bytes());
    json.writeNumberField("count", result.count());
    json.writeBooleanField("inPlace", result.cell().inPlace());
    json.writeBooleanField("graph", setting.graph());
    json.writeBooleanField("registered", setting.registered());
    json.writeStringField("algorithm", result.choice().algorithm());
    json.writeStringField("protocol", result.choice().protocol());
    json.writeStringField("transport", result.choice().transport());
    if (result.choice().blocks() > 0) {
      json.writeNumberField("blocks", result.choice().blocks());
    }
    json.writeNumberField("timeUs", result.timeUs());
    json.writeNumberField("algBw", result.algBw());
    json.writeNumberField("busBw", result.busBw());
    if (result.verdict() == null) {
      json.writeNullField("wrong");
      json.writeNullField("outside");
    } else {
      json.writeNumberField("wrong", result.verdict().wrong());
      json.writeNumberField("outside", result.verdict().outside());
    }
    json.writeArrayFieldStart("references");
    for (Reference reference : result.references()) {
      json.writeStartObject();
      json.writeStringField("name", reference.name());
      json.writeStringField("version", reference.version());
      json.writeNumberField("timeUs", reference.timeUs());
      json.writeNumberField("ratio", result.ratio(reference));
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeEndObject();
  }
}
