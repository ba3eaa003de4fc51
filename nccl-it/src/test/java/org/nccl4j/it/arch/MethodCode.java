package org.nccl4j.it.arch;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.AnnotationVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * The instructions of a method that it runs unless it throws: a branch that ends in a throw is left
 * out.
 */
public final class MethodCode extends MethodVisitor {
  private static final int API = Opcodes.ASM9;

  /**
   * An instruction.
   *
   * @param opcode as the JVM numbers it
   * @param owner of the field or method, or the type that is made; empty where there is none
   * @param name of the field or method; empty where there is none
   * @param descriptor of the field or method, or of what invokedynamic captures; empty likewise
   * @param line in the file; 0 where that is not known
   */
  public record Instruction(int opcode, String owner, String name, String descriptor, int line) {
    /** True if it calls a method that its class file names. */
    public boolean isCall() {
      return opcode >= Opcodes.INVOKEVIRTUAL && opcode <= Opcodes.INVOKEINTERFACE;
    }
  }

  /** The successors of an instruction: the next one, and labels. */
  private record Flow(boolean next, List<Label> targets) {}

  private final List<Instruction> instructions = new ArrayList<>();
  private final List<Flow> flows = new ArrayList<>();
  private final Map<Label, Integer> places = new HashMap<>();
  private final Set<String> annotations = new HashSet<>();
  private int line;
  private int firstLine = Integer.MAX_VALUE;
  private int lastLine;

  /** An empty method, to be visited. */
  public MethodCode() {
    super(API);
  }

  /** Descriptors of the types of its annotations. */
  public Set<String> annotations() {
    return annotations;
  }

  /** Lines from the first statement to the last; 0 where they are not known. */
  public int lines() {
    return Math.max(0, lastLine - firstLine + 1);
  }

  /** The last line; 0 where it is not known. */
  public int lastLine() {
    return lastLine;
  }

  /** The instructions that may be followed by a return. */
  public List<Instruction> ofReturns() {
    BitSet returns = returns();
    return returns.stream().mapToObj(instructions::get).toList();
  }

  /** True if it may run an instruction again before it returns. */
  public boolean hasLoop() {
    BitSet returns = returns();
    return returns.stream()
        .anyMatch(at -> flows.get(at).targets.stream().anyMatch(to -> places.get(to) <= at));
  }

  private BitSet returns() {
    BitSet returns = new BitSet();
    for (boolean grows = true; grows; ) {
      grows = false;
      for (int at = instructions.size() - 1; at >= 0; at--) {
        if (!returns.get(at) && mayReturn(at, returns)) {
          returns.set(at);
          grows = true;
        }
      }
    }
    return returns;
  }

  private boolean mayReturn(int at, BitSet returns) {
    int opcode = instructions.get(at).opcode;
    Flow flow = flows.get(at);
    return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN
        || flow.next && returns.get(at + 1)
        || flow.targets.stream().anyMatch(to -> returns.get(places.get(to)));
  }

  private void add(int opcode, String owner, String name, String descriptor) {
    add(opcode, owner, name, descriptor, opcode != Opcodes.ATHROW && !isReturn(opcode), List.of());
  }

  private static boolean isReturn(int opcode) {
    return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN;
  }

  private void add(
      int opcode, String owner, String name, String descriptor, boolean next, List<Label> targets) {
    instructions.add(new Instruction(opcode, owner, name, descriptor, line));
    flows.add(new Flow(next, targets));
  }

  @Override
  public AnnotationVisitor visitAnnotation(String descriptor, boolean visible) {
    annotations.add(descriptor);
    return null;
  }

  @Override
  public void visitLabel(Label label) {
    places.put(label, instructions.size());
  }

  @Override
  public void visitLineNumber(int number, Label start) {
    line = number;
    firstLine = Math.min(firstLine, number);
    lastLine = Math.max(lastLine, number);
  }

  @Override
  public void visitInsn(int opcode) {
    add(opcode, "", "", "");
  }

  @Override
  public void visitIntInsn(int opcode, int operand) {
    add(opcode, "", "", "");
  }

  @Override
  public void visitVarInsn(int opcode, int index) {
    add(opcode, "", "", "");
  }

  @Override
  public void visitTypeInsn(int opcode, String type) {
    add(opcode, type, "", "");
  }

  @Override
  public void visitFieldInsn(int opcode, String owner, String name, String descriptor) {
    add(opcode, owner, name, descriptor);
  }

  @Override
  public void visitMethodInsn(
      int opcode, String owner, String name, String descriptor, boolean isInterface) {
    add(opcode, owner, name, descriptor);
  }

  @Override
  public void visitInvokeDynamicInsn(
      String name, String descriptor, Handle bootstrap, Object... arguments) {
    add(Opcodes.INVOKEDYNAMIC, "", name, descriptor);
  }

  @Override
  public void visitJumpInsn(int opcode, Label label) {
    add(opcode, "", "", "", opcode != Opcodes.GOTO, List.of(label));
  }

  @Override
  public void visitLdcInsn(Object value) {
    add(Opcodes.LDC, "", "", "");
  }

  @Override
  public void visitIincInsn(int index, int increment) {
    add(Opcodes.IINC, "", "", "");
  }

  @Override
  public void visitTableSwitchInsn(int least, int most, Label other, Label... labels) {
    visitSwitch(Opcodes.TABLESWITCH, other, labels);
  }

  @Override
  public void visitLookupSwitchInsn(Label other, int[] keys, Label[] labels) {
    visitSwitch(Opcodes.LOOKUPSWITCH, other, labels);
  }

  private void visitSwitch(int opcode, Label other, Label[] labels) {
    List<Label> targets = new ArrayList<>(List.of(labels));
    targets.add(other);
    add(opcode, "", "", "", false, targets);
  }

  @Override
  public void visitMultiANewArrayInsn(String descriptor, int dimensions) {
    add(Opcodes.MULTIANEWARRAY, descriptor, "", "");
  }
}
