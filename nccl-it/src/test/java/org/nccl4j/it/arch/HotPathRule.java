package org.nccl4j.it.arch;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.nccl4j.it.arch.MethodCode.Instruction;
import org.objectweb.asm.Opcodes;

/**
 * The condition that methods with the annotation HotPath themselves make no objects and take no
 * locks, unless they throw. What they call is not looked at: a slow path is a method of its own.
 */
final class HotPathRule extends ArchCondition<JavaClass> {
  private static final String HOT_PATH = "/HotPath;";
  private static final Set<String> BOXES =
      Set.of(
          "java/lang/Boolean",
          "java/lang/Byte",
          "java/lang/Character",
          "java/lang/Double",
          "java/lang/Float",
          "java/lang/Integer",
          "java/lang/Long",
          "java/lang/Short");

  HotPathRule() {
    super("neither allocate nor lock in hot paths");
  }

  @Override
  public void check(JavaClass type, ConditionEvents events) {
    for (ClassMethods.Method method : ClassMethods.of(type)) {
      if (method.code().annotations().stream().anyMatch(name -> name.endsWith(HOT_PATH))) {
        for (String problem : problems(method)) {
          events.add(
              SimpleConditionEvent.violated(
                  type, type.getName() + "." + method.name() + " " + problem));
        }
      }
    }
  }

  private static List<String> problems(ClassMethods.Method method) {
    List<String> problems = new ArrayList<>();
    if (method.has(Opcodes.ACC_SYNCHRONIZED)) {
      problems.add("is synchronized");
    }
    for (Instruction at : method.code().ofReturns()) {
      String problem = problem(at);
      if (!problem.isEmpty()) {
        problems.add(problem + " in line " + at.line());
      }
    }
    return problems;
  }

  private static String problem(Instruction at) {
    return switch (at.opcode()) {
      case Opcodes.NEW -> "makes a " + at.owner();
      case Opcodes.NEWARRAY, Opcodes.ANEWARRAY, Opcodes.MULTIANEWARRAY -> "makes an array";
      case Opcodes.MONITORENTER -> "takes a monitor";
      case Opcodes.INVOKEDYNAMIC ->
          at.descriptor().startsWith("()") ? "" : "captures variables in a lambda";
      case Opcodes.INVOKESTATIC ->
          BOXES.contains(at.owner()) && at.name().equals("valueOf") ? "boxes a value" : "";
      default -> "";
    };
  }
}
