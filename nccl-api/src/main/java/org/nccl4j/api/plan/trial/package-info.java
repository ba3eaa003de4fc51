/**
 * Learns from a running job which algorithms are the fastest. {@code Trials} is the entrance: now
 * and then it runs a collective by another algorithm than the chosen one, measures both, and keeps
 * the times in a file of the rank ({@code TrialFile}). {@code ./nccl tune --from} makes a table of
 * costs from the files of all ranks. Layer: the plan's; it launches through the launcher.
 *
 * <p>All ranks try the same algorithm in the same call, although they exchange nothing: the
 * schedule depends on the number of the call and on predicted times, which are equal on all ranks
 * ({@code TrialSchedule}). Ranks of one machine also leave out trials that cost too much ({@code
 * TrialAgreement}); those of several machines make the first ones alone.
 */
package org.nccl4j.api.plan.trial;
