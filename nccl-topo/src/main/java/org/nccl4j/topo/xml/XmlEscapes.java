package org.nccl4j.topo.xml;

/** The five characters that XML writes as references; any other reference stays as it is. */
final class XmlEscapes {
  private static final String[][] REFERENCES = {
    {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&amp;", "&"}
  };

  private XmlEscapes() {}

  static String decode(String raw) {
    String text = raw;
    for (String[] reference : REFERENCES) {
      text = text.replace(reference[0], reference[1]);
    }
    return text;
  }

  static String encode(String text) {
    String raw = text;
    // Backwards: the ampersand first, or it would encode what the others wrote.
    for (int i = REFERENCES.length - 1; i >= 0; i--) {
      raw = raw.replace(REFERENCES[i][1], REFERENCES[i][0]);
    }
    return raw;
  }
}
