package org.nccl4j.api.plan.cost;

import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * The words {@code bytes:microseconds} of a line of measured costs. Tables that come with nccl4j
 * have further whole numbers in a word, such as {@code 32768:25.54:4}.
 */
public final class CostPoints {
  private static final double LEAST_MICROSECONDS = 0.01;

  /** A table takes times of up to nine digits. */
  private static final double MOST_MICROSECONDS = 999_999_999;

  private CostPoints() {}

  /** The words, each after a blank; times have two decimals and are more than 0. */
  public static String write(Map<Long, Double> points) {
    StringBuilder words = new StringBuilder();
    points.forEach(
        (bytes, time) -> {
          double written = Math.min(MOST_MICROSECONDS, Math.max(LEAST_MICROSECONDS, time));
          words.append(String.format(Locale.ROOT, " %d:%.2f", bytes, written));
        });
    return words.toString();
  }

  /**
   * The microseconds by bytes.
   *
   * @param words of a line
   * @param first the index of the first point
   * @throws IllegalArgumentException if a word is no point
   */
  public static TreeMap<Long, Double> read(String[] words, int first) {
    TreeMap<Long, Double> points = new TreeMap<>();
    for (int i = first; i < words.length; i++) {
      String[] numbers = numbers(words[i]);
      points.put(Long.parseLong(numbers[0]), Double.parseDouble(numbers[1]));
    }
    return points;
  }

  /**
   * A further number of each point by bytes; 0 for a word that is shorter.
   *
   * @param index of the number in its word, from 2
   */
  static TreeMap<Long, Integer> read(String[] words, int first, int index) {
    TreeMap<Long, Integer> points = new TreeMap<>();
    for (int i = first; i < words.length; i++) {
      String[] numbers = numbers(words[i]);
      points.put(
          Long.parseLong(numbers[0]),
          index < numbers.length ? Integer.parseInt(numbers[index]) : 0);
    }
    return points;
  }

  private static String[] numbers(String word) {
    String[] numbers = word.split(":");
    if (numbers.length < 2) {
      throw new IllegalArgumentException(word);
    }
    return numbers;
  }
}
