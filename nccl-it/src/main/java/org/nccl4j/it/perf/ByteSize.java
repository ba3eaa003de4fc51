package org.nccl4j.it.perf;

import java.math.BigDecimal;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * A number of bytes as it is written on the command line: digits, perhaps with a fraction, and
 * perhaps K, M or G for powers of 1024.
 *
 * @param bytes how many
 */
record ByteSize(long bytes) {
  private static final Pattern FORM = Pattern.compile("(\\d{1,18}(?:\\.\\d{1,9})?)([KMG]?)B?");

  /** Parses the value of an option. */
  static ByteSize parse(String option, String text) {
    try {
      return parse(text);
    } catch (InvalidArgumentException e) {
      throw new InvalidArgumentException(ErrorId.OPTION, option + " " + e.problem(), e.remedy(), e);
    }
  }

  static ByteSize parse(String text) {
    Matcher form = FORM.matcher(text.strip().toUpperCase(Locale.ROOT));
    if (!form.matches()) {
      throw malformed(text, "is not a size");
    }
    int unit = " KMG".indexOf((form.group(2) + " ").charAt(0));
    BigDecimal bytes =
        new BigDecimal(form.group(1)).multiply(BigDecimal.valueOf(1L << (10 * unit)));
    if (bytes.stripTrailingZeros().scale() > 0) {
      throw malformed(text, "is not a whole number of bytes");
    }
    if (bytes.compareTo(BigDecimal.valueOf(1L << 40)) > 0) {
      throw malformed(text, "is more than 1024G");
    }
    return new ByteSize(bytes.longValueExact());
  }

  private static InvalidArgumentException malformed(String text, String why) {
    return new InvalidArgumentException(
        ErrorId.OPTION,
        "'" + text + "' " + why,
        "write bytes, or K, M or G of them, such as 8, 512K, 64M or 1.5G");
  }

  /** About how much, in the largest fitting unit. */
  String rounded() {
    int unit = 0;
    while (unit < 3 && bytes >= 10L << (10 * unit + 10)) {
      unit++;
    }
    return (bytes >> (10 * unit)) + " KMG".substring(unit, unit + 1).strip();
  }

  @Override
  public String toString() {
    for (int unit = 3; unit > 0; unit--) {
      if (bytes >= 1L << (10 * unit) && bytes % (1L << (10 * unit)) == 0) {
        return (bytes >> (10 * unit)) + " KMG".substring(unit, unit + 1);
      }
    }
    return Long.toString(bytes);
  }
}
