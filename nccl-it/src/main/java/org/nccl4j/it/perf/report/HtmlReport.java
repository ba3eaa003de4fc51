package org.nccl4j.it.perf.report;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

/**
 * Results as a page with plots that needs nothing else: the chart library, its licence, and the
 * results as JSON are in the page.
 */
public final class HtmlReport {
  private HtmlReport() {}

  /**
   * Writes a file.
   *
   * @throws org.nccl4j.device.SystemErrorException if it cannot be written
   */
  public static void write(Report report, Path file) {
    JsonReport.writeText(text(report), file);
  }

  /** The text of the page. */
  public static String text(Report report) {
    // In a script element only "</" could end the data early.
    String data = JsonReport.text(report).replace("</", "<\\/");
    return resource("page.html")
        .replace("/*uPlot.min.css*/", resource("uPlot.min.css"))
        .replace("/*uPlot.LICENSE*/", "/*\n" + resource("uPlot.LICENSE") + "*/")
        .replace("/*uPlot.iife.min.js*/", resource("uPlot.iife.min.js"))
        .replace("/*page.js*/", resource("page.js"))
        .replace("/*results*/", data);
  }

  private static String resource(String name) {
    try (InputStream in = HtmlReport.class.getResourceAsStream(name)) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
