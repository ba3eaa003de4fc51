package org.nccl4j.it.abi;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * The names that a shared library exports: the defined symbols of its dynamic symbol table, as `nm
 * -D --defined-only` lists them. ELF of 64 bits, the least significant byte first. `./abi-tests
 * exports` runs it.
 */
final class ExportedNames {
  private static final int HEADER_BYTES = 64;
  private static final int SECTION_BYTES = 64;
  private static final int SYMBOL_BYTES = 24;
  private static final int DYNAMIC_SYMBOLS = 11; // SHT_DYNSYM
  private static final int GLOBAL = 1;
  private static final int WEAK = 2;
  private static final int MOST_BYTES = 1 << 28; // of a table

  private final FileChannel file;

  private ExportedNames(FileChannel file) {
    this.file = file;
  }

  /** All that a library exports. */
  static SortedSet<String> of(Path library) throws IOException {
    try (FileChannel file = FileChannel.open(library)) {
      return new ExportedNames(file).read(library);
    }
  }

  /** The names of NCCL's interface that a library exports, with the twins for profilers. */
  static SortedSet<String> ofNccl(Path library) throws IOException {
    return of(library).stream()
        .filter(name -> name.matches("p?nccl[A-Z].*"))
        .collect(Collectors.toCollection(TreeSet::new));
  }

  private SortedSet<String> read(Path library) throws IOException {
    ByteBuffer header = bytes(0, HEADER_BYTES);
    if (header.getInt(0) != 0x464c457f || header.get(4) != 2 || header.get(5) != 1) {
      throw new IOException(library + " is no ELF file of 64 bits");
    }
    long sections = header.getLong(40);
    int n = Short.toUnsignedInt(header.getShort(60));
    for (int i = 0; i < n; i++) {
      ByteBuffer section = bytes(sections + (long) i * SECTION_BYTES, SECTION_BYTES);
      if (section.getInt(4) == DYNAMIC_SYMBOLS) {
        int names = section.getInt(40);
        return defined(
            content(section),
            content(bytes(sections + (long) names * SECTION_BYTES, SECTION_BYTES)));
      }
    }
    throw new IOException(library + " has no dynamic symbols");
  }

  private static SortedSet<String> defined(ByteBuffer symbols, ByteBuffer names) {
    SortedSet<String> found = new TreeSet<>();
    for (int at = 0; at + SYMBOL_BYTES <= symbols.limit(); at += SYMBOL_BYTES) {
      int binding = Byte.toUnsignedInt(symbols.get(at + 4)) >> 4;
      boolean isDefined = symbols.getShort(at + 6) != 0;
      if (isDefined && (binding == GLOBAL || binding == WEAK)) {
        found.add(name(names, symbols.getInt(at)));
      }
    }
    return found;
  }

  private static String name(ByteBuffer names, int from) {
    int end = from;
    while (names.get(end) != 0) {
      end++;
    }
    return new String(names.array(), from, end - from, StandardCharsets.US_ASCII);
  }

  private ByteBuffer content(ByteBuffer section) throws IOException {
    long size = section.getLong(32);
    if (size < 0 || size > MOST_BYTES) {
      throw new IOException("a table of " + size + " bytes");
    }
    return bytes(section.getLong(24), (int) size);
  }

  private ByteBuffer bytes(long from, int n) throws IOException {
    ByteBuffer into = ByteBuffer.allocate(n).order(ByteOrder.LITTLE_ENDIAN);
    while (into.hasRemaining()) {
      if (file.read(into, from + into.position()) < 0) {
        throw new EOFException("the file ends within " + n + " bytes from " + from + " on");
      }
    }
    return into.rewind();
  }

  /**
   * Compares two libraries: ExportedNames OURS NCCL. Prints a line; ends with status 1, and the
   * names in further lines, if NCCL has some that ours lacks.
   */
  public static void main(String[] arguments) throws IOException {
    SortedSet<String> ours = ofNccl(Path.of(arguments[0]));
    SortedSet<String> theirs = ofNccl(Path.of(arguments[1]));
    SortedSet<String> missing = new TreeSet<>(theirs);
    missing.removeAll(ours);
    boolean wrong = theirs.isEmpty() || !missing.isEmpty();
    System.out.printf(
        "%d of %d names of %s%n", theirs.size() - missing.size(), theirs.size(), arguments[1]);
    missing.forEach(name -> System.out.println("missing: " + name));
    System.exit(wrong ? 1 : 0);
  }
}
