package org.nccl4j.it.topo;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.nccl4j.topo.xml.XmlElement;

/**
 * A topology file's elements as JSON: attributes are fields, and elements of a tag are an array of
 * that name.
 */
final class SystemJson {
  private static final Set<String> NUMBERS =
      Set.of(
          "version",
          "numaid",
          "familyid",
          "modelid",
          "link_width",
          "dev",
          "sm",
          "rank",
          "gdr",
          "count",
          "bw",
          "latency",
          "speed",
          "port",
          "maxconn",
          "coll",
          "rail",
          "plane",
          "keep");

  /** A number of JSON, which has no leading zeros. */
  private static final String NUMBER = "-?(0|[1-9][0-9]{0,8})([.][0-9]{1,9})?";

  private final JsonGenerator json;

  SystemJson(JsonGenerator json) {
    this.json = json;
  }

  /** The element's fields, into the object that is open. */
  void fields(XmlElement element) throws IOException {
    for (Map.Entry<String, String> attribute : element.attributes().entrySet()) {
      String value = attribute.getValue();
      json.writeFieldName(attribute.getKey());
      if (NUMBERS.contains(attribute.getKey()) && value.matches(NUMBER)) {
        json.writeNumber(value);
      } else {
        json.writeString(value);
      }
    }
    Map<String, List<XmlElement>> byTag = new LinkedHashMap<>();
    for (XmlElement child : element.children()) {
      byTag.computeIfAbsent(child.name(), tag -> new ArrayList<>()).add(child);
    }
    for (Map.Entry<String, List<XmlElement>> tag : byTag.entrySet()) {
      json.writeArrayFieldStart(tag.getKey());
      for (XmlElement child : tag.getValue()) {
        json.writeStartObject();
        fields(child);
        json.writeEndObject();
      }
      json.writeEndArray();
    }
  }
}
