package org.nccl4j.device.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Signatures of all small calls, in pairs. */
class CallSignatureTest {
  private static final long[] COUNTS = {1, 2, 3, 4, 8, 100, 512, 1000, 1024, 1 << 20, 1L << 33};
  private static final int ROOTS = 4;

  /** A call, as far as it is compared; what plays no part in it is 0. */
  private record Call(Operation operation, DataType type, RedOp op, int root, long count) {
    int signature() {
      return new CollectiveWork(
              operation, Algorithm.RING, Protocol.SIMPLE, type, op, root, count, 0, 1024)
          .signature();
    }

    int differences(Call other) {
      return (operation == other.operation ? 0 : 1)
          + (type == other.type ? 0 : 1)
          + (op == other.op ? 0 : 1)
          + (root == other.root ? 0 : 1)
          + (count == other.count ? 0 : 1);
    }
  }

  private static List<Call> calls() {
    List<Call> calls = new ArrayList<>();
    for (Operation operation : Operation.collectives()) {
      boolean reduces = operation.reduces();
      boolean rooted = operation == Operation.BROADCAST || operation == Operation.REDUCE;
      for (DataType type : DataType.values()) {
        for (RedOp op : reduces ? RedOp.values() : new RedOp[] {RedOp.SUM}) {
          for (int root = 0; root < (rooted ? ROOTS : 1); root++) {
            for (long count : COUNTS) {
              calls.add(new Call(operation, type, op, root, count));
            }
          }
        }
      }
    }
    return calls;
  }

  @Test
  void twoCallsThatDifferInOneRespectAreToldApartByAnyLine() {
    List<Call> calls = calls();
    long pairs = 0;
    long sameLines = 0;
    long sameSignatures = 0;
    int[] signatures = calls.stream().mapToInt(Call::signature).toArray();
    for (int one = 0; one < signatures.length; one++) {
      for (int other = 0; other < one; other++) {
        boolean sameLine =
            CallSignature.line(signatures[one]) == CallSignature.line(signatures[other]);
        pairs++;
        sameLines += sameLine ? 1 : 0;
        sameSignatures += signatures[one] == signatures[other] ? 1 : 0;
        if (sameLine && calls.get(one).differences(calls.get(other)) == 1) {
          long apart = calls.get(one).count - calls.get(other).count;
          String both = calls.get(one) + " and " + calls.get(other);
          assertTrue(apart != 0 && apart % 1021 == 0, both);
          assertNotEquals(signatures[one], signatures[other], both);
        }
      }
    }
    assertTrue(sameLines < pairs / 500, sameLines + " of " + pairs + " have the same line");
    assertTrue(sameSignatures < pairs / 30_000, sameSignatures + " of " + pairs + " are the same");
  }

  @Test
  void signaturesAndLinesAreNeverZeroAndFit() {
    for (Call call : calls()) {
      int signature = call.signature();
      assertEquals(0, signature >>> CallSignature.BITS, call::toString);
      assertNotEquals(0, CallSignature.line(signature), call::toString);
      assertEquals(0, CallSignature.line(signature) >>> CallSignature.LINE_BITS, call::toString);
    }
  }

  @Test
  void aCallHasOneSignatureWhateverItsWay() {
    for (Operation operation : Operation.collectives()) {
      var work =
          new CollectiveWork(
              operation, Algorithm.RING, Protocol.LL, DataType.INT8, RedOp.MAX, 3, 77, 0, 1024);
      var direct =
          new WindowWork(
              operation, Algorithm.DIRECT_ONE_SHOT, DataType.INT8, RedOp.MAX, 3, 77, null, null, 0);
      assertEquals(work.signature(), direct.signature());
    }
    var exchange =
        new WindowWork(
            Operation.ALL_TO_ALL,
            Algorithm.COPY_ENGINE,
            DataType.FLOAT32,
            RedOp.SUM,
            0,
            5,
            null,
            null,
            0);
    assertEquals(exchange.signature(), CallSignature.ofPart(Operation.ALL_TO_ALL, 0, 20, 0));
  }

  @Test
  void rootsAndOperatorsThatPlayNoPartAreNotCompared() {
    Call plain = new Call(Operation.ALL_GATHER, DataType.INT32, RedOp.SUM, 0, 9);
    assertEquals(
        plain.signature(),
        new Call(Operation.ALL_GATHER, DataType.INT32, RedOp.MAX, 1, 9).signature());
    assertEquals(
        new Call(Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 0, 9).signature(),
        new Call(Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 1, 9).signature());
  }

  @Test
  void suppliedOperatorsAreToldFromAllOthersButNotByTheirScalars() {
    var work =
        new CollectiveWork(
            Operation.ALL_REDUCE,
            Algorithm.RING,
            Protocol.LL,
            DataType.FLOAT32,
            RedOp.PROD,
            0,
            9,
            0,
            1024);
    int half =
        CallSignature.of(work.shape(), 9, ReductionOperator.preMulSum(DataType.FLOAT32, 0.5));
    int whole = CallSignature.of(work.shape(), 9, ReductionOperator.preMulSum(DataType.FLOAT32, 1));
    int own = CallSignature.of(work.shape(), 9, ReductionOperator.of("own", (a, b, c, n, t) -> {}));
    assertEquals(half, whole);
    assertNotEquals(CallSignature.line(half), CallSignature.line(own));
    assertNotEquals(CallSignature.line(half), CallSignature.line(work.signature()));
    assertNotEquals(CallSignature.line(own), CallSignature.line(work.signature()));
  }

  /** Of calls that differ in the function alone, those with marks 1021 apart have the same line. */
  @Test
  void usersFunctionsAreToldApart() {
    for (int one : new int[] {0, 1, 7, 1020, 1021, 40_000, 65_535}) {
      for (int other : new int[] {2, 60, 62, 1023, 5000, 65_534}) {
        int[] signatures = {function(one), function(other)};
        assertEquals(
            (one - other) % 1021 == 0,
            CallSignature.line(signatures[0]) == CallSignature.line(signatures[1]));
        int[] parts = {
          CallSignature.ofPart(Operation.ALL_TO_ALL, 0, 4096, one),
          CallSignature.ofPart(Operation.ALL_TO_ALL, 0, 4096, other)
        };
        assertNotEquals(signatures[0], signatures[1]);
        assertNotEquals(parts[0], parts[1]);
      }
    }
  }

  /** Ranks that go different ways, or call different operations of as many bytes. */
  @Test
  void exchangesOfQuantisedSumsAreToldApartByAnyLine() {
    for (QuantisedWork.Exchange one : QuantisedWork.Exchange.values()) {
      for (QuantisedWork.Exchange other : QuantisedWork.Exchange.values()) {
        for (Operation operation : List.of(Operation.ALL_TO_ALL, Operation.ALL_GATHER)) {
          assertEquals(
              one == other,
              CallSignature.line(CallSignature.ofPart(operation, 0, 4096, one.mark()))
                  == CallSignature.line(CallSignature.ofPart(operation, 0, 4096, other.mark())));
        }
      }
      String text = CallText.of(Operation.ALL_TO_ALL, 7, DataType.UINT8, "", 0, one.mark());
      assertTrue(text.startsWith("alltoall of 7 uint8, for "), text);
      assertTrue(text.contains("quantised"), text);
    }
  }

  private static int function(int mark) {
    return CallSignature.of(
        CallShape.withFunction(
            CallShape.of(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.PROD, 0), mark),
        9,
        ReductionOperator.of("own", (a, b, c, n, t) -> {}));
  }

  @Test
  void messagesAndPartsOfDifferentSizeOrKindDiffer() {
    int message = CallSignature.ofMessage(4096);
    assertNotEquals(CallSignature.line(message), CallSignature.line(CallSignature.ofMessage(2048)));
    int part = CallSignature.ofPart(Operation.ALL_TO_ALL, 0, 4096, 0);
    assertNotEquals(CallSignature.line(message), CallSignature.line(part));
    assertNotEquals(
        CallSignature.line(CallSignature.ofPart(Operation.GATHER, 0, 4096, 0)),
        CallSignature.line(CallSignature.ofPart(Operation.GATHER, 1, 4096, 0)));
  }
}
