/**
 * Learns from a running job which algorithms are the fastest. {@code Trials} is the entrance: now
 * and then it runs a collective by another algorithm than the chosen one, measures both, and keeps
 * the times in a file of the rank ({@code TrialFile}). {@code ./nccl tune --from} makes a table of
 * costs from the files of all ranks. Layer: the plan's; it launches through the launcher.
 *
 * <p>All ranks try the same algorithm in the same call. The schedule depends on the number of the
 * call and on predicted times, which are equal on all ranks ({@code TrialSchedule}). Trials that
 * cost too much are left out: by decisions that ranks of one machine make in a file ({@code
 * TrialAgreement}), and those of several by votes ahead of the call ({@code TrialVotes}).
 */
package org.nccl4j.api.plan.trial;
