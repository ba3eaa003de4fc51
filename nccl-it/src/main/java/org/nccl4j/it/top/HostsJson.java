package org.nccl4j.it.top;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.util.List;
import org.nccl4j.it.top.HostTraffic.LinkTraffic;

/** Writes the hosts' pictures and traffic of a frame as JSON. Bandwidths are in GB/s. */
final class HostsJson {
  private static final JsonFactory FACTORY = new JsonFactory();

  private HostsJson() {}

  static String of(List<HostTraffic> hosts) {
    StringWriter text = new StringWriter();
    try (JsonGenerator out = FACTORY.createGenerator(text)) {
      out.writeStartArray();
      for (HostTraffic host : hosts) {
        out.writeStartObject();
        out.writeStringField("host", host.host());
        out.writeStringField("svg", host.svg());
        out.writeArrayFieldStart("links");
        for (LinkTraffic link : host.links()) {
          write(link, out);
        }
        out.writeEndArray();
        strings("notes", host.notes(), out);
        out.writeEndObject();
      }
      out.writeEndArray();
    } catch (IOException e) {
      throw new UncheckedIOException(e); // of memory: there is none
    }
    return text.toString();
  }

  private static void write(LinkTraffic link, JsonGenerator out) throws IOException {
    out.writeStartObject();
    out.writeStringField("id", link.id());
    out.writeStringField("name", link.name());
    out.writeNumberField("capacity", link.capacity());
    out.writeNumberField("there", link.there());
    out.writeNumberField("back", link.back());
    strings("flows", link.flows(), out);
    out.writeEndObject();
  }

  private static void strings(String field, List<String> all, JsonGenerator out)
      throws IOException {
    out.writeArrayFieldStart(field);
    for (String each : all) {
      out.writeString(each);
    }
    out.writeEndArray();
  }
}
