package org.nccl4j.it.top;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import org.nccl4j.api.observe.JobReport.UnreachedRoot;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/** Writes frames as JSON, one object in one line. Bandwidths are in GB/s, shares from 0 to 1. */
final class FrameJson {
  private static final JsonFactory FACTORY = new JsonFactory();

  private FrameJson() {}

  static String of(Frame frame) {
    StringWriter text = new StringWriter();
    try (JsonGenerator out = FACTORY.createGenerator(text)) {
      out.writeStartObject();
      out.writeNumberField("millis", frame.millis());
      out.writeNumberField("seconds", frame.seconds());
      out.writeArrayFieldStart("communicators");
      for (CommunicatorRates each : frame.communicators()) {
        write(each, out);
      }
      out.writeEndArray();
      out.writeArrayFieldStart("unreachedRoots");
      for (UnreachedRoot root : frame.unreached()) {
        out.writeStartObject();
        out.writeStringField("root", root.where());
        out.writeStringField("reason", root.reason());
        out.writeEndObject();
      }
      out.writeEndArray();
      out.writeEndObject();
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return text.toString();
  }

  private static void write(CommunicatorRates each, JsonGenerator out) throws IOException {
    out.writeStartObject();
    out.writeStringField("name", each.name());
    out.writeNumberField("nRanks", each.nRanks());
    out.writeStringField("id", Long.toHexString(each.id())); // too long for JavaScript's numbers
    out.writeNumberField("operations", each.operations());
    out.writeNumberField("busbw", each.busGigabytes());
    out.writeArrayFieldStart("ranks");
    for (RankRates rank : each.ranks()) {
      write(rank, out);
    }
    out.writeEndArray();
    out.writeArrayFieldStart("waits");
    for (Wait wait : each.waits()) {
      out.writeStartObject();
      out.writeNumberField("rank", wait.rank());
      out.writeNumberField("for", wait.waitsFor());
      out.writeNumberField("share", wait.share());
      out.writeEndObject();
    }
    out.writeEndArray();
    out.writeArrayFieldStart("slowLinks");
    for (LinkSpeeds.Slow slow : each.speeds().slow()) {
      write(slow, out);
    }
    out.writeEndArray();
    out.writeNumberField("comparedLinks", each.speeds().all().size());
    out.writeEndObject();
  }

  /** With the names that the state of a job has for it. */
  private static void write(LinkSpeeds.Slow slow, JsonGenerator out) throws IOException {
    out.writeStartObject();
    out.writeNumberField("rank", slow.speed().rank());
    out.writeNumberField("peer", slow.speed().link().peer());
    out.writeStringField("link", slow.speed().link().way());
    out.writeBooleanField("stalled", slow.isStalled());
    out.writeNumberField("bytesPerSecond", Math.round(slow.speed().bytesPerSecond()));
    out.writeNumberField("median", Math.round(slow.median()));
    out.writeNumberField("links", slow.links());
    out.writeStringField("text", slow.text());
    out.writeEndObject();
  }

  private static void write(RankRates rank, JsonGenerator out) throws IOException {
    out.writeStartObject();
    out.writeNumberField("rank", rank.rank());
    out.writeStringField("host", rank.process().host());
    out.writeNumberField("pid", rank.process().pid());
    out.writeStringField("device", rank.device());
    out.writeObjectFieldStart("counts");
    out.writeNumberField("operations", rank.counts().operations());
    out.writeNumberField("bytes", rank.counts().bytes());
    out.writeNumberField("busBytes", rank.counts().busBytes());
    out.writeNumberField("waitSeconds", rank.counts().waitSeconds());
    out.writeEndObject();
    out.writeNumberField("operations", rank.operations());
    out.writeNumberField("algbw", rank.gigabytes());
    out.writeNumberField("busbw", rank.busGigabytes());
    out.writeNumberField("waiting", rank.waiting());
    out.writeNumberField("waitsFor", rank.waitsFor());
    out.writeStringField("operation", rank.operation());
    out.writeStringField("state", rank.state());
    out.writeArrayFieldStart("links");
    for (LinkRates link : rank.links()) {
      out.writeStartObject();
      out.writeNumberField("peer", link.peer());
      out.writeStringField("transport", link.transport());
      out.writeStringField("via", link.via());
      out.writeNumberField("bytes", link.bytes());
      out.writeNumberField("rate", link.gigabytes());
      out.writeNumberField("receivedRate", link.receivedGigabytes());
      out.writeEndObject();
    }
    out.writeEndArray();
    out.writeArrayFieldStart("failovers");
    for (Failover each : rank.failovers()) {
      out.writeStartObject();
      out.writeNumberField("peer", each.peer());
      out.writeNumberField("count", each.what().count());
      out.writeNumberField("lastMillis", each.what().lastMillis());
      out.writeNumberField("bytesAgain", each.what().bytesAgain());
      out.writeStringField("path", each.what().path());
      out.writeEndObject();
    }
    out.writeEndArray();
    out.writeEndObject();
  }
}
