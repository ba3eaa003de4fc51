package org.nccl4j.topo.report;

import java.util.List;
import java.util.Locale;

/** Shapes of a picture, collected as SVG. Later shapes are on top. */
final class SvgCanvas {
  /** Largest width of a letter of a link's label. */
  private static final int TAG_LETTER = 7;

  private static final String FONT = "font-family=\"sans-serif\" font-size=\"12\"";

  private final StringBuilder body = new StringBuilder();
  private final StringBuilder tags = new StringBuilder();

  /** The part of the picture that the next shapes are of; empty if of none. */
  private String part = "";

  /**
   * Begins a part of the picture: a group with a class and an id. Its label is such a group too.
   *
   * @param kind of the part, as classes
   * @param name for people; empty for none
   */
  void begin(String kind, String id, String name) {
    part = id;
    add("<g class=\"%s\" data-id=\"%s\">", kind, escape(id));
    if (!name.isEmpty()) {
      add("<title>%s</title>", escape(name));
    }
  }

  /** Ends the part. */
  void end() {
    part = "";
    add("</g>");
  }

  void area(int x, int y, int width, int height) {
    add(
        "<rect class=\"area\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"10\" fill=\"#fbfbfb\""
            + " stroke=\"#bbbbbb\" stroke-dasharray=\"4 3\"/>",
        x, y, width, height);
  }

  void box(int x, int y, int width, int height, String fill, List<String> lines) {
    add(
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\""
            + " stroke=\"#444444\"/>",
        x, y, width, height, fill);
    int line = y + (height - 15 * lines.size()) / 2 + 12;
    for (String text : lines) {
      add(
          "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" %s>%s</text>",
          x + width / 2, line, FONT, escape(text));
      line += 15;
    }
  }

  void line(int x1, int y1, int x2, int y2, String colour, double width, String text) {
    add(
        "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"%.1f\"/>",
        x1, y1, x2, y2, colour, width);
    // Not in the middle: labels of crossing lines would overlap.
    tag(x1 + (x2 - x1) * 2 / 5, y1 + (y2 - y1) * 2 / 5, text);
  }

  /** Returns how far a curve hangs down. */
  static int hang(int x1, int x2, int lower) {
    return (24 + lower + Math.abs(x2 - x1) / 10) * 3 / 4;
  }

  /** A curve that hangs below two points of equal height. */
  void arc(int x1, int y, int x2, String colour, double width, int lower, String text) {
    int depth = y + 24 + lower + Math.abs(x2 - x1) / 10;
    add(
        "<path d=\"M %d %d C %d %d %d %d %d %d\" fill=\"none\" stroke=\"%s\""
            + " stroke-width=\"%.1f\"/>",
        x1, y, x1, depth, x2, depth, x2, y, colour, width);
    tag((x1 + x2) / 2, y + hang(x1, x2, lower), text);
  }

  void label(int x, int y, String text) {
    add("<text x=\"%d\" y=\"%d\" %s fill=\"#222222\">%s</text>", x, y, FONT, escape(text));
  }

  /** Labels of links come last, so that no later line covers them. */
  private void tag(int x, int y, String text) {
    if (!text.isEmpty()) {
      int width = TAG_LETTER * text.length() + 6;
      tags.append(
          String.format(
              Locale.ROOT,
              "<g class=\"tag\" data-id=\"%s\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"15\""
                  + " rx=\"3\" fill=\"#ffffff\" fill-opacity=\"0.9\"/><text x=\"%d\" y=\"%d\""
                  + " text-anchor=\"middle\" font-family=\"sans-serif\" font-size=\"11\""
                  + " fill=\"#333333\">%s</text></g>%n",
              escape(part),
              x - width / 2,
              y - 8,
              width,
              x,
              y + 4,
              escape(text)));
    }
  }

  /** A document that is as wide as its place, and no wider than its shapes. */
  String document(int width, int height, String title) {
    return document(
        "width=\"100%%\" style=\"max-width:%dpx\"".formatted(width), width, height, title);
  }

  /** A document of a fixed size, for pages that set the styles of their parts themselves. */
  String fixedDocument(int width, int height, String title) {
    return document("width=\"%d\" height=\"%d\"".formatted(width, height), width, height, title);
  }

  private String document(String size, int width, int height, String title) {
    return String.format(
        Locale.ROOT,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" %s viewBox=\"0 0 %d %d\">%n<title>%s</title>%n"
            + "<rect class=\"paper\" width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>%n%s%s</svg>%n",
        size,
        width,
        height,
        escape(title),
        body,
        tags);
  }

  private void add(String format, Object... values) {
    body.append(String.format(Locale.ROOT, format, values)).append('\n');
  }

  private static String escape(String text) {
    return text.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\"", "&quot;");
  }
}
