package org.nccl4j.it.path;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.nccl4j.it.arch.MethodCode;
import org.nccl4j.it.arch.MethodCode.Instruction;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Tells accessors from other methods of the project. An accessor is an expression of at most {@link
 * #MOST} instructions: it stores nothing, has no loop, and calls accessors only. Branches that
 * throw do not count.
 */
final class Accessors {
  /** Most instructions of an accessor. */
  static final int MOST = 24;

  private static final String OURS = "org/nccl4j/";

  /** Stores to fields and arrays, and monitors; stores to local variables are none. */
  private static final Set<Integer> EFFECTS =
      Set.of(
          Opcodes.PUTFIELD,
          Opcodes.PUTSTATIC,
          Opcodes.IASTORE,
          Opcodes.LASTORE,
          Opcodes.FASTORE,
          Opcodes.DASTORE,
          Opcodes.AASTORE,
          Opcodes.BASTORE,
          Opcodes.CASTORE,
          Opcodes.SASTORE,
          Opcodes.MONITORENTER,
          Opcodes.INVOKEDYNAMIC);

  private final ClassLoader classes;
  private final Map<String, Type> types = new HashMap<>();
  private final Map<String, Boolean> known = new HashMap<>();

  /** A class file; the key of a method is its name and descriptor. */
  private static final class Type {
    String parent;
    boolean isEnum;
    final Map<String, MethodCode> methods = new HashMap<>();
  }

  Accessors(ClassLoader classes) {
    this.classes = classes;
  }

  /** True for types that only list facts. */
  boolean isEnum(String type) {
    return type(type).isEnum;
  }

  /** True for an accessor; false for a method without code. */
  boolean has(String owner, String name, String descriptor) {
    for (String type = owner; type.startsWith(OURS); type = type(type).parent) {
      MethodCode code = type(type).methods.get(name + descriptor);
      if (code != null) {
        return isAccessor(type + "." + name + descriptor, code);
      }
    }
    return name.equals("ordinal") && descriptor.equals("()I");
  }

  private boolean isAccessor(String method, MethodCode code) {
    Boolean earlier = known.putIfAbsent(method, true); // a call of itself reads what this reads
    if (earlier != null) {
      return earlier;
    }
    List<Instruction> instructions = code.ofReturns();
    boolean is =
        !instructions.isEmpty()
            && instructions.size() <= MOST
            && !code.hasLoop()
            && instructions.stream().allMatch(this::isRead);
    known.put(method, is);
    return is;
  }

  private boolean isRead(Instruction at) {
    return !EFFECTS.contains(at.opcode())
        && (!at.isCall() || has(at.owner(), at.name(), at.descriptor()));
  }

  private Type type(String name) {
    Type known = types.get(name);
    if (known == null) {
      known = read(name);
      types.put(name, known);
    }
    return known;
  }

  private Type read(String name) {
    Type type = new Type();
    try (InputStream in = classes.getResourceAsStream(name + ".class")) {
      new ClassReader(in)
          .accept(
              new ClassVisitor(Opcodes.ASM9) {
                @Override
                public void visit(
                    int version,
                    int access,
                    String self,
                    String signature,
                    String parent,
                    String[] interfaces) {
                  type.parent = parent;
                  type.isEnum = "java/lang/Enum".equals(parent);
                }

                @Override
                public MethodVisitor visitMethod(
                    int access,
                    String method,
                    String descriptor,
                    String signature,
                    String[] exceptions) {
                  MethodCode code = new MethodCode();
                  type.methods.put(method + descriptor, code);
                  return code;
                }
              },
              ClassReader.SKIP_FRAMES);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return type;
  }
}
