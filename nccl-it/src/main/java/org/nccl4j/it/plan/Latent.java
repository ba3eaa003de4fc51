package org.nccl4j.it.plan;

/**
 * The dimensions of multi-head latent attention (MLA): keys and values of all heads are computed
 * from one short vector of each token, and queries from another one.
 *
 * @param rank elements of the vector that keys and values are computed from; 0 for other attention
 * @param queryRank elements of the vector of queries; 0 if queries are computed from the stream
 * @param plain elements of a head's query and key without a position
 * @param rotary elements of a head's query with its position; all heads share one such key
 * @param value elements of a head's value
 */
record Latent(int rank, int queryRank, int plain, int rotary, int value) {
  /** Of a model whose heads share the hidden width. */
  static final Latent NONE = new Latent(0, 0, 0, 0, 0);

  /** Elements that all heads of a token are computed from, without those of queries. */
  long shared() {
    return rank + rotary;
  }

  /** Parameters: the matrices of queries, keys, values and outputs, and the norms of vectors. */
  long parameters(long hidden, long heads) {
    long queries = heads * (plain + rotary);
    long queryParameters = queryRank == 0 ? hidden * queries : queryRank * (hidden + 1 + queries);
    long keysAndValues = hidden * shared() + rank * (1 + heads * (plain + value));
    return queryParameters + keysAndValues + heads * value * hidden;
  }
}
