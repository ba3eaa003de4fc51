package org.nccl4j.api.bootstrap.root;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.device.ErrorId;

/**
 * Answers observers, which know the secret but are not ranks: passes their question on to all ranks
 * over existing connections, forwards each answer as it arrives, and after a deadline names the
 * ranks that sent none.
 *
 * <p>Owner thread: the loop's.
 */
final class StateService implements Connection.Owner {
  /** Time for the ranks to answer. A rank answers from its event loop, also while it hangs. */
  private static final Duration PATIENCE = Duration.ofSeconds(1);

  private static final int MOST_OBSERVERS = 16;

  /** Longest question of an observer. */
  private static final int MOST_QUESTION_BYTES = 64;

  private final EventLoop loop;
  private final String version;
  private final Map<Connection, Question> questions = new LinkedHashMap<>();
  private long asked;

  /** An observer's question, with the ranks that have not answered it. */
  private static final class Question {
    private final long number;
    private final int nRanks;
    private final Map<Connection, JoinMessage> awaited;
    private EventLoop.Timer timeout;

    Question(long number, int nRanks, Map<Connection, JoinMessage> awaited) {
      this.number = number;
      this.nRanks = nRanks;
      this.awaited = new LinkedHashMap<>(awaited);
    }
  }

  StateService(EventLoop loop, String version) {
    this.loop = loop;
    this.version = version;
  }

  /**
   * Begins to answer an observer.
   *
   * @param members ranks that are connected
   * @param nRanks how many there are; 0 while that is not known
   * @param formed whether all have come; before, none is asked
   */
  void ask(
      Connection observer,
      MessageReader first,
      Map<Connection, JoinMessage> members,
      int nRanks,
      boolean formed)
      throws ProtocolException {
    String theirs = first.text(JoinMessage.MAX_TEXT);
    ByteBuffer what = first.rest();
    if (what.remaining() > MOST_QUESTION_BYTES) {
      throw new ProtocolException("it sent a question of %d bytes".formatted(what.remaining()));
    }
    observer.handTo(this, RankState.MAX_MESSAGE_BYTES);
    if (!theirs.equals(version)) {
      refuse(
          observer,
          ErrorId.RANKS_DIFFER,
          "the observer has version %s of nccl4j, the job's root %s".formatted(theirs, version),
          "run the nccl command of the job's version");
    } else if (questions.size() >= MOST_OBSERVERS) {
      refuse(
          observer,
          ErrorId.USAGE,
          "the root answers %d observers already".formatted(MOST_OBSERVERS),
          "try again in a second");
    } else if (!formed) {
      members.values().forEach(rank -> send(observer, rank, false, new byte[0]));
      end(observer, nRanks, false);
    } else {
      Question question = new Question(++asked, nRanks, members);
      questions.put(observer, question);
      question.timeout = loop.after(PATIENCE, () -> finish(observer));
      ByteBuffer message =
          new MessageWriter(FrameType.STATE_ASKED).number(question.number).raw(what).done();
      members.keySet().forEach(rank -> rank.send(message.duplicate()));
      finishIfAnswered(observer, question);
    }
  }

  private static void refuse(Connection observer, ErrorId id, String fact, String remedy) {
    observer.finish(new FailureMessage(id, fact, remedy, "").encode());
  }

  /** A rank's answer, perhaps to a question that is over. */
  void answered(Connection rank, MessageReader body) throws ProtocolException {
    long number = body.longNumber();
    byte[] state = body.bytes(RankState.MAX_BYTES);
    for (Map.Entry<Connection, Question> each : Map.copyOf(questions).entrySet()) {
      Question question = each.getValue();
      if (question.number == number) {
        JoinMessage who = question.awaited.remove(rank);
        if (who != null) {
          send(each.getKey(), who, true, state);
        }
        finishIfAnswered(each.getKey(), question);
      }
    }
  }

  /** A rank has left, or its process has ended: nothing is awaited of it. */
  void left(Connection rank) {
    Map.copyOf(questions)
        .forEach(
            (observer, question) -> {
              if (question.awaited.remove(rank) != null) {
                finishIfAnswered(observer, question);
              }
            });
  }

  private void finishIfAnswered(Connection observer, Question question) {
    if (question.awaited.isEmpty()) {
      finish(observer);
    }
  }

  private void finish(Connection observer) {
    Question question = questions.remove(observer);
    if (question != null) {
      question.timeout.cancel();
      question.awaited.values().forEach(rank -> send(observer, rank, false, new byte[0]));
      end(observer, question.nRanks, true);
    }
  }

  private static void send(Connection observer, JoinMessage rank, boolean answered, byte[] state) {
    observer.send(RankState.encode(rank, answered, state));
  }

  private static void end(Connection observer, int nRanks, boolean formed) {
    observer.finish(
        new MessageWriter(FrameType.STATES_END).number(nRanks).number(formed ? 1 : 0).done());
  }

  @Override
  public void received(Connection observer, FrameType type, MessageReader body)
      throws ProtocolException {
    throw new ProtocolException("an observer sent " + type);
  }

  @Override
  public void closed(Connection observer, IOException reason) {
    Question question = questions.remove(observer);
    if (question != null) {
      question.timeout.cancel();
    }
  }

  /** Answers what can be answered, at the end of the root. */
  void close() {
    Set.copyOf(questions.keySet()).forEach(this::finish);
  }
}
