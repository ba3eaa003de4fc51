package org.nccl4j.topo;

import java.math.BigInteger;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Numbers as C's strtol reads them: a prefix in base 10, 8 (0...) or 16 (0x...). */
public final class CNumber {
  private static final Pattern PREFIX =
      Pattern.compile(
          "\\s*([+-]?)(?:0[xX]([0-9a-fA-F]+)|(0[0-7]*)|([1-9][0-9]*)).*", Pattern.DOTALL);
  private static final Pattern WHOLE =
      Pattern.compile("[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)");
  private static final Pattern HEX =
      Pattern.compile("\\s*(?:0[xX])?([0-9a-fA-F]+).*", Pattern.DOTALL);

  private CNumber() {}

  /** The number that the text starts with, cut to 64 bits at the ends; empty if there is none. */
  public static OptionalLong prefix(String text) {
    Matcher match = PREFIX.matcher(text);
    if (!match.matches()) {
      return OptionalLong.empty();
    }
    BigInteger value =
        match.group(2) != null
            ? new BigInteger(match.group(2), 16)
            : match.group(3) != null
                ? new BigInteger(match.group(3), 8)
                : new BigInteger(match.group(4));
    if (match.group(1).equals("-")) {
      value = value.negate();
    }
    BigInteger low = BigInteger.valueOf(Long.MIN_VALUE);
    BigInteger high = BigInteger.valueOf(Long.MAX_VALUE);
    return OptionalLong.of(value.max(low).min(high).longValue());
  }

  /** The number that the text is; empty if it is no number. */
  public static OptionalLong whole(String text) {
    return WHOLE.matcher(text).matches() ? prefix(text) : OptionalLong.empty();
  }

  /** An unsigned 64-bit number in base 16, with or without 0x; 0 if there is none. */
  public static long hex(String text) {
    Matcher match = HEX.matcher(text);
    if (!match.matches()) {
      return 0;
    }
    BigInteger value = new BigInteger(match.group(1), 16);
    return value.bitLength() > Long.SIZE ? -1L : value.longValue();
  }
}
