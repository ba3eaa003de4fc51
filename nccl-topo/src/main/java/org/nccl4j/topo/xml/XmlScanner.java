package org.nccl4j.topo.xml;

import java.util.function.IntPredicate;
import org.nccl4j.topo.TopologyException;

/**
 * Reads the plain subset of XML that topology files are written in: elements, attributes, comments.
 * There are no entities to expand and no document types to load, so none can hurt; text that NCCL
 * accepts is accepted even if general parsers reject it (a comment with two dashes in it). Used by
 * one thread.
 */
final class XmlScanner {
  private final String file;
  private final String text;
  private final XmlLimits limits;
  private int at;
  private int line = 1;
  private int elements;

  XmlScanner(String file, String text, XmlLimits limits) {
    this.file = file;
    this.text = text;
    this.limits = limits;
  }

  /** The top element; nothing may follow it. */
  XmlElement document() {
    skipBetween();
    if (at == text.length()) {
      throw error("the file is empty", "write the topology with NCCL_TOPO_DUMP_FILE");
    }
    XmlElement root = element(1);
    skipBetween();
    if (at < text.length()) {
      throw error("there is more after </" + root.name() + ">", "keep one top element");
    }
    return root;
  }

  private XmlElement element(int depth) {
    expect('<');
    if (++elements > limits.elements()) {
      throw error("more than " + limits.elements() + " elements", "split or shorten the file");
    }
    if (depth > limits.depth()) {
      throw error("elements nest deeper than " + limits.depth(), "flatten the PCI tree");
    }
    XmlElement element = new XmlElement(name("element"), file, line);
    while (attribute(element)) {
      if (element.attributes().size() > limits.attributes()) {
        throw error("more than " + limits.attributes() + " attributes", "remove unknown ones");
      }
    }
    if (peek() == '/') {
      at++;
      expect('>');
      return element;
    }
    expect('>');
    content(element, depth);
    return element;
  }

  private void content(XmlElement element, int depth) {
    while (true) {
      skipBetween();
      if (at == text.length()) {
        throw error(
            "<" + element.name() + "> of line " + lineOf(element) + " is not closed",
            "write the file again, which may be cut off");
      }
      if (text.startsWith("</", at)) {
        at += 2;
        String closed = name("closing tag");
        if (!closed.equals(element.name())) {
          throw error(
              "</" + closed + "> closes <" + element.name() + "> of line " + lineOf(element),
              "close elements in the order they were opened");
        }
        skip(XmlScanner::isSpace);
        expect('>');
        return;
      }
      element.add(element(depth + 1));
    }
  }

  private static String lineOf(XmlElement element) {
    return element.where().substring(element.where().lastIndexOf(':') + 1);
  }

  private boolean attribute(XmlElement element) {
    skip(XmlScanner::isSpace);
    char c = peek();
    if (c == '/' || c == '>') {
      return false;
    }
    String key = name("attribute");
    skip(XmlScanner::isSpace);
    expect('=');
    skip(XmlScanner::isSpace);
    element.setIfAbsent(key, value(key));
    return true;
  }

  private String value(String key) {
    char quote = peek();
    if (quote != '"' && quote != '\'') {
      throw error("the value of " + key + " is not quoted", "put it in double quotes");
    }
    int start = ++at;
    skip(c -> c != quote && c != '<');
    if (at == text.length() || text.charAt(at) != quote) {
      throw error("the value of " + key + " does not end", "close the quotes");
    }
    String raw = limited(start);
    at++;
    String value = raw.indexOf('&') < 0 ? raw : XmlEscapes.decode(raw);
    // XML has no such characters, and a terminal that shows the value would obey them.
    if (value.chars().anyMatch(c -> Character.isISOControl(c) && !isSpace(c))) {
      throw error("the value of " + key + " has a control character", "remove it");
    }
    return value;
  }

  private String name(String of) {
    int start = at;
    skip(XmlScanner::isName);
    if (at == start) {
      String found = at == text.length() ? "the end" : "'" + text.charAt(at) + "'";
      throw error(found + " where the name of an " + of + " belongs", "check the line");
    }
    return limited(start);
  }

  private String limited(int start) {
    if (at - start > limits.text()) {
      throw error("a name or value is longer than " + limits.text(), "shorten it");
    }
    return text.substring(start, at);
  }

  /** Skips space, comments and processing instructions; text between elements is an error. */
  private void skipBetween() {
    while (true) {
      skip(XmlScanner::isSpace);
      if (text.startsWith("<!--", at)) {
        skipPast("-->", "comment");
      } else if (text.startsWith("<?", at)) {
        skipPast("?>", "processing instruction");
      } else if (text.startsWith("<!", at)) {
        throw error("document types are not allowed", "remove <!DOCTYPE ...> and its entities");
      } else if (at < text.length() && text.charAt(at) != '<') {
        throw error("text where an element belongs", "remove what is not an element");
      } else {
        return;
      }
    }
  }

  private void skipPast(String end, String of) {
    int found = text.indexOf(end, at);
    if (found < 0) {
      throw error("a " + of + " does not end", "close it with " + end);
    }
    while (at < found + end.length()) {
      advance();
    }
  }

  private void skip(IntPredicate while_) {
    while (at < text.length() && while_.test(text.charAt(at))) {
      advance();
    }
  }

  private void advance() {
    if (text.charAt(at++) == '\n') {
      line++;
    }
  }

  private char peek() {
    if (at == text.length()) {
      throw error("the file ends within an element", "write the file again, which may be cut off");
    }
    return text.charAt(at);
  }

  private void expect(char c) {
    if (peek() != c) {
      throw error("'" + peek() + "' where '" + c + "' belongs", "check the line");
    }
    at++;
  }

  private static boolean isSpace(int c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\uFEFF';
  }

  private static boolean isName(int c) {
    return c > ' '
        && !Character.isISOControl(c)
        && c != '<'
        && c != '>'
        && c != '/'
        && c != '='
        && c != '"'
        && c != '\'';
  }

  private TopologyException error(String why, String remedy) {
    return new TopologyException("XML cannot be read", file + ":" + line, why, remedy);
  }
}
