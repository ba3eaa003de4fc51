package org.nccl4j.it.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * Checks that links between pages lead to files, and that the types that pages name and the pages
 * that sources name exist.
 */
class DocumentLinksTest {
  private static final Path ROOT = Path.of("..").toAbsolutePath().normalize();
  private static final Pattern LINK = Pattern.compile("\\]\\((?!https?:|#)([^)#\\s]+)[^)]*\\)");
  private static final Pattern NAMED = Pattern.compile("\\bdocs/[\\w./-]+\\.(?:md|sh|java|c)\\b");

  /** A type in code font, and a member of it. */
  private static final Pattern TYPE =
      Pattern.compile("`([A-Z]\\w*[a-z]\\w*)(?:\\.(\\w+))?(?:\\([^`]*\\))?`");

  /** The JDK's, and an event's name in JFR. */
  private static final Set<String> NOT_OURS = Set.of("ServiceLoader", "ProxyStep");

  private static final List<String> MODULES =
      List.of(
          "nccl-topo",
          "nccl-device",
          "nccl-device/kernels",
          "nccl-api",
          "nccl-transport-p2p",
          "nccl-transport-nvls",
          "nccl-transport-net",
          "nccl-it");

  @Test
  void linksBetweenPagesLeadToFiles() throws IOException {
    List<String> broken = new ArrayList<>();
    List<Path> pages = pages();
    for (Path page : pages) {
      Matcher link = LINK.matcher(Files.readString(page));
      while (link.find()) {
        if (!Files.exists(page.resolveSibling(link.group(1)))) {
          broken.add(ROOT.relativize(page) + ": " + link.group(1));
        }
      }
    }
    assertTrue(pages.size() > 30, "pages were found");
    assertEquals(List.of(), broken);
  }

  /** A page on the inside names types by their files, and their members. */
  @Test
  void typesThatPagesNameExist() throws IOException {
    Map<String, String> sources = new HashMap<>();
    for (Path source : files(ROOT, ".java")) {
      String name = source.getFileName().toString().replace(".java", "");
      sources.merge(name, Files.readString(source), String::concat);
    }
    List<String> unknown = new ArrayList<>();
    int looked = 0;
    for (Path page : pages()) {
      String at = ROOT.relativize(page).toString();
      if (at.matches("ARCHITECTURE\\.md|docs/(internals|concepts)/.*")) {
        Matcher named = TYPE.matcher(Files.readString(page));
        while (named.find()) {
          looked++;
          String source = NOT_OURS.contains(named.group(1)) ? "" : sources.get(named.group(1));
          if (source == null || named.group(2) != null && !source.contains(named.group(2))) {
            unknown.add(at + ": " + named.group());
          }
        }
      }
    }
    assertTrue(looked > 200, looked + " names");
    assertEquals(List.of(), unknown);
  }

  @Test
  void pagesThatSourcesNameExist() throws IOException {
    List<String> broken = new ArrayList<>();
    for (String module : MODULES) {
      for (Path source : files(ROOT.resolve(module).resolve("src"), ".java")) {
        Matcher named = NAMED.matcher(Files.readString(source));
        while (named.find()) {
          if (!Files.exists(ROOT.resolve(named.group()))) {
            broken.add(ROOT.relativize(source) + ": " + named.group());
          }
        }
      }
    }
    assertEquals(List.of(), broken);
  }

  /** Every page is named by an index page or by another page that the index leads to. */
  @Test
  void theIndexLeadsToEveryPage() throws IOException {
    List<Path> seen = new ArrayList<>(List.of(ROOT.resolve("README.md")));
    for (int i = 0; i < seen.size(); i++) {
      Matcher link = LINK.matcher(Files.readString(seen.get(i)));
      while (link.find()) {
        Path target = seen.get(i).resolveSibling(link.group(1)).normalize();
        if (target.toString().endsWith(".md") && !seen.contains(target)) {
          seen.add(target);
        }
      }
    }
    List<Path> lost = new ArrayList<>(pages());
    lost.removeAll(seen);
    assertEquals(List.of(), lost);
  }

  private static List<Path> pages() throws IOException {
    List<Path> pages = new ArrayList<>(files(ROOT.resolve("docs"), ".md"));
    for (String page : List.of("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")) {
      pages.add(ROOT.resolve(page));
    }
    return pages;
  }

  private static List<Path> files(Path folder, String ending) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      return files.filter(file -> file.toString().endsWith(ending)).sorted().toList();
    }
  }
}
