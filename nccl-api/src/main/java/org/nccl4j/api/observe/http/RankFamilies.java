package org.nccl4j.api.observe.http;

import org.nccl4j.api.observe.http.PrometheusWriter.Family;

/**
 * The families of a communicator's ranks that are served both for a job and for the processes of a
 * host. A scraper of both finds one name with one meaning.
 */
public final class RankFamilies {
  public static final Family OPERATIONS =
      Family.counter("nccl4j_operations_total", "Operations that ended.");
  public static final Family FAILED =
      Family.gauge("nccl4j_failed", "1 if the communicator has failed on the rank.");
  public static final Family LINK_BYTES =
      Family.counter("nccl4j_link_bytes_total", "Bytes sent to a rank over its connection.");
  public static final Family LINK_RECEIVED =
      Family.counter(
          "nccl4j_link_received_bytes_total", "Bytes received from a rank over a network.");
  public static final Family LINK_UNDER_WAY =
      Family.counter(
          "nccl4j_link_under_way_seconds_total",
          "Time in which data were under way to a rank over a network.");
  public static final Family LINK_STALLED =
      Family.counter(
          "nccl4j_link_stalled_seconds_total", "The part of that time in which none arrived.");
  public static final Family TAKE_OVERS =
      Family.counter(
          "nccl4j_path_failovers_total",
          "Network paths of connections that broke and were replaced.");
  public static final Family BYTES_AGAIN =
      Family.counter("nccl4j_bytes_sent_again_total", "Bytes sent again after a path had broken.");
  public static final Family LINK_SPEED =
      Family.gauge(
          "nccl4j_link_bytes_per_second",
          "Speed of a link over a network while both of its ends waited for it, in the last 5 to 10"
              + " seconds.");
  public static final Family SLOW_LINK =
      Family.gauge(
          "nccl4j_slow_link_ratio",
          "Speed of a slow link relative to the median of others of its kind; 0 if it is stalled.");

  private RankFamilies() {}

  /** Returns the label of the rank at a connection's other end; of several, -1, it is "others". */
  public static String peer(int rank) {
    return PrometheusWriter.label("peer", rank < 0 ? "others" : String.valueOf(rank));
  }
}
