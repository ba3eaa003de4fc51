package org.nccl4j.it.plan;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import org.nccl4j.it.plan.Plan.Estimate;
import org.nccl4j.it.plan.Plan.Timed;
import org.nccl4j.it.plan.Traffic.Axis;

/** Writes a plan as JSON, with the calls of every layout. */
final class PlanJson {
  private PlanJson() {}

  /** One object. */
  static String of(Plan plan) {
    StringWriter text = new StringWriter();
    try (JsonGenerator json = new JsonFactory().createGenerator(text)) {
      json.writeStartObject();
      json.writeStringField("model", plan.job().model().name());
      json.writeNumberField("parameters", plan.job().model().parameters());
      if (plan.job().model().hasExperts()) {
        json.writeNumberField("activeParameters", plan.job().model().activeParameters());
      }
      json.writeNumberField("gpus", plan.job().gpus());
      json.writeNumberField("gpusPerMachine", plan.job().gpusPerMachine());
      json.writeNumberField("batch", plan.job().batch());
      json.writeNumberField("microBatch", plan.job().microBatch());
      json.writeNumberField("tooLarge", plan.tooLarge());
      json.writeNumberField("undivided", plan.undivided());
      json.writeArrayFieldStart("layouts");
      for (Estimate each : plan.estimates()) {
        write(json, plan.job().model(), each);
      }
      json.writeEndArray();
      json.writeEndObject();
    } catch (IOException e) {
      throw new UncheckedIOException(e); // a StringWriter has no errors
    }
    return text.toString();
  }

  private static void write(JsonGenerator json, ModelShape model, Estimate each)
      throws IOException {
    Layout layout = each.layout();
    json.writeStartObject();
    json.writeNumberField("tensor", layout.tensor());
    json.writeNumberField("context", layout.context());
    if (model.hasExperts()) {
      json.writeNumberField("expert", layout.expert());
    }
    json.writeNumberField("data", layout.data());
    json.writeNumberField("pipeline", layout.pipeline());
    json.writeNumberField("leastLayers", each.stages().least());
    json.writeNumberField("mostLayers", each.stages().most());
    json.writeStringField("sharding", layout.sharding().name());
    json.writeNumberField("memoryBytes", Math.round(each.memory().bytes()));
    json.writeNumberField("microBatches", each.microBatches());
    json.writeNumberField("totalMs", each.milliseconds());
    json.writeNumberField("exposedMs", each.exposed());
    json.writeNumberField("bubble", each.bubble());
    json.writeObjectFieldStart("ms");
    for (Axis axis : Axis.of(model)) {
      json.writeNumberField(axis.name(), each.milliseconds(axis));
    }
    json.writeEndObject();
    json.writeArrayFieldStart("calls");
    for (Timed call : each.calls()) {
      Traffic traffic = call.traffic();
      json.writeStartObject();
      json.writeStringField("for", traffic.axis().name());
      json.writeStringField("operation", traffic.operation().label());
      json.writeNumberField("ranks", traffic.ranks());
      json.writeNumberField("first", traffic.first());
      json.writeNumberField("stride", traffic.stride());
      json.writeNumberField("bytes", traffic.bytes());
      json.writeNumberField("calls", traffic.calls());
      json.writeNumberField("us", call.way().microseconds());
      json.writeStringField("algorithm", call.way().algorithm().label());
      json.writeStringField("protocol", call.way().protocol().label());
      json.writeEndObject();
    }
    json.writeEndArray();
    json.writeEndObject();
  }
}
