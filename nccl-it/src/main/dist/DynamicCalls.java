import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import java.util.zip.ZipOutputStream;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.Label;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;
import org.objectweb.asm.commons.GeneratorAdapter;
import org.objectweb.asm.commons.Method;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;

/**
 * Replaces the invokedynamic instructions of lambda expressions and records in jars by calls of
 * methods. A JVM links such an instruction when it first runs it, in Java code that is interpreted:
 * 0.2 ms for a lambda expression, milliseconds for a method of a record. Each lambda expression
 * becomes a class, which the JVM can archive, and each method of a record a method with the same
 * result. Serializable lambda expressions stay. {@code dist.sh} runs it: DynamicCalls JAR...
 */
final class DynamicCalls {
  private static final String LAMBDAS = "java/lang/invoke/LambdaMetafactory";
  private static final String RECORDS = "java/lang/runtime/ObjectMethods";
  private static final String OBJECTS = "java/util/Objects";

  /** The JVM's name of such classes too; {@code ReductionOperator} leaves out what follows. */
  private static final String LAMBDA = "$$Lambda";

  private static final Type OBJECT = Type.getType(Object.class);
  private static final Type BUILDER = Type.getType(StringBuilder.class);

  /** Primitive types by their boxes. */
  private static final Map<Type, Type> BOXED =
      Map.of(
          Type.getType(Boolean.class), Type.BOOLEAN_TYPE,
          Type.getType(Byte.class), Type.BYTE_TYPE,
          Type.getType(Character.class), Type.CHAR_TYPE,
          Type.getType(Short.class), Type.SHORT_TYPE,
          Type.getType(Integer.class), Type.INT_TYPE,
          Type.getType(Long.class), Type.LONG_TYPE,
          Type.getType(Float.class), Type.FLOAT_TYPE,
          Type.getType(Double.class), Type.DOUBLE_TYPE);

  /** The classes of a jar that have been read, and those that are made. */
  private final Map<String, ClassNode> read = new TreeMap<>();

  private final Map<String, byte[]> made = new TreeMap<>();
  private final Set<String> changed = new TreeSet<>();

  private DynamicCalls() {}

  /** Rewrites jars in place; their files are stored, not compressed. */
  public static void main(String[] jars) throws IOException {
    for (String jar : jars) {
      new DynamicCalls().rewrite(Path.of(jar));
    }
  }

  private void rewrite(Path jar) throws IOException {
    Map<String, byte[]> files = new LinkedHashMap<>();
    try (ZipInputStream in = new ZipInputStream(Files.newInputStream(jar))) {
      for (ZipEntry entry = in.getNextEntry(); entry != null; entry = in.getNextEntry()) {
        files.put(entry.getName(), in.readAllBytes());
      }
    }
    files.forEach(
        (name, bytes) -> {
          if (name.endsWith(".class") && !name.startsWith("META-INF/")) {
            ClassNode node = new ClassNode();
            new ClassReader(bytes).accept(node, 0);
            read.put(node.name, node);
          }
        });
    read.values().forEach(this::rewrite);
    for (String name : changed) {
      ClassWriter writer = new ClassWriter(0);
      read.get(name).accept(writer);
      files.put(name + ".class", writer.toByteArray());
    }
    made.forEach((name, bytes) -> files.put(name + ".class", bytes));
    write(jar, files);
  }

  private static void write(Path jar, Map<String, byte[]> files) throws IOException {
    try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(jar))) {
      for (Map.Entry<String, byte[]> file : files.entrySet()) {
        CRC32 sum = new CRC32();
        sum.update(file.getValue());
        ZipEntry entry = new ZipEntry(file.getKey());
        entry.setMethod(ZipEntry.STORED);
        entry.setTime(0);
        entry.setSize(file.getValue().length);
        entry.setCrc(sum.getValue());
        out.putNextEntry(entry);
        out.write(file.getValue());
        out.closeEntry();
      }
    }
  }

  private void rewrite(ClassNode owner) {
    int lambdas = 0;
    for (MethodNode method : List.copyOf(owner.methods)) {
      for (AbstractInsnNode each : method.instructions.toArray()) {
        if (!(each instanceof InvokeDynamicInsnNode dynamic)) {
          continue;
        }
        String maker = dynamic.bsm.getOwner();
        MethodInsnNode call;
        if (maker.equals(LAMBDAS) && dynamic.bsm.getName().equals("metafactory")) {
          call = lambda(owner, owner.name + LAMBDA + lambdas++, dynamic);
        } else if (maker.equals(RECORDS)) {
          call = record(owner, dynamic);
        } else {
          continue;
        }
        method.instructions.set(dynamic, call);
        changed.add(owner.name);
      }
    }
  }

  // --- Lambda expressions ------------------------------------------------------------------------

  private static final String MAKE = "make";
  private static final String ONLY = "ONLY";
  private static final String INIT = "<init>";

  /** Makes the class of a lambda expression; returns the call that makes an object of it. */
  private MethodInsnNode lambda(ClassNode owner, String name, InvokeDynamicInsnNode dynamic) {
    String host = owner.nestHostClass == null ? owner.name : owner.nestHostClass;
    ClassNode nest = read.get(host);
    if (nest.nestMembers == null) {
      nest.nestMembers = new ArrayList<>();
    }
    nest.nestMembers.add(name); // it calls the class's private methods
    changed.add(host);
    Type type = Type.getObjectType(name);
    Type[] captured = Type.getArgumentTypes(dynamic.desc);
    ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
    writer.visit(
        owner.version,
        Opcodes.ACC_FINAL | Opcodes.ACC_SUPER | Opcodes.ACC_SYNTHETIC,
        name,
        null,
        OBJECT.getInternalName(),
        new String[] {Type.getReturnType(dynamic.desc).getInternalName()});
    writer.visitNestHost(host);
    addConstructor(writer, type, captured);
    addMake(writer, type, dynamic.desc);
    addMethod(writer, type, captured, dynamic);
    writer.visitEnd();
    made.put(name, writer.toByteArray());
    return new MethodInsnNode(Opcodes.INVOKESTATIC, name, MAKE, dynamic.desc, false);
  }

  private static GeneratorAdapter method(ClassWriter writer, int access, Method method) {
    return new GeneratorAdapter(access, method, null, null, writer);
  }

  private static void addConstructor(ClassWriter writer, Type type, Type[] captured) {
    GeneratorAdapter code = method(writer, Opcodes.ACC_PRIVATE, constructor(captured));
    code.loadThis();
    code.invokeConstructor(OBJECT, constructor());
    for (int i = 0; i < captured.length; i++) {
      int access = Opcodes.ACC_PRIVATE | Opcodes.ACC_FINAL;
      writer.visitField(access, field(i), captured[i].getDescriptor(), null, null).visitEnd();
      code.loadThis();
      code.loadArg(i);
      code.putField(type, field(i), captured[i]);
    }
    code.returnValue();
    code.endMethod();
  }

  private static Method constructor(Type... parameters) {
    return new Method(INIT, Type.VOID_TYPE, parameters);
  }

  private static String field(int captured) {
    return "captured" + captured;
  }

  /** A lambda expression that captures nothing has one object. */
  private static void addMake(ClassWriter writer, Type type, String descriptor) {
    Type[] captured = Type.getArgumentTypes(descriptor);
    GeneratorAdapter make = method(writer, Opcodes.ACC_STATIC, new Method(MAKE, descriptor));
    GeneratorAdapter code = make;
    if (captured.length == 0) {
      int access = Opcodes.ACC_PRIVATE | Opcodes.ACC_STATIC | Opcodes.ACC_FINAL;
      writer.visitField(access, ONLY, type.getDescriptor(), null, null).visitEnd();
      make.getStatic(type, ONLY, type);
      make.returnValue();
      make.endMethod();
      code = method(writer, Opcodes.ACC_STATIC, new Method("<clinit>", "()V"));
    }
    code.newInstance(type);
    code.dup();
    if (code == make) {
      code.loadArgs();
    }
    code.invokeConstructor(type, constructor(captured));
    if (code != make) {
      code.putStatic(type, ONLY, type);
    }
    code.returnValue();
    code.endMethod();
  }

  /** The interface's method: calls the body with what was captured, then the arguments. */
  private static void addMethod(
      ClassWriter writer, Type type, Type[] captured, InvokeDynamicInsnNode dynamic) {
    Type erased = (Type) dynamic.bsmArgs[0];
    Handle body = (Handle) dynamic.bsmArgs[1];
    Type[] arguments = ((Type) dynamic.bsmArgs[2]).getArgumentTypes();
    Type owner = Type.getObjectType(body.getOwner());
    boolean makes = body.getTag() == Opcodes.H_NEWINVOKESPECIAL;
    List<Type> parameters = new ArrayList<>();
    if (!makes && body.getTag() != Opcodes.H_INVOKESTATIC) {
      parameters.add(owner);
    }
    parameters.addAll(Arrays.asList(Type.getArgumentTypes(body.getDesc())));
    GeneratorAdapter code =
        method(writer, Opcodes.ACC_PUBLIC, new Method(dynamic.name, erased.getDescriptor()));
    if (makes) {
      code.newInstance(owner);
      code.dup();
    }
    for (int i = 0; i < captured.length; i++) {
      code.loadThis();
      code.getField(type, field(i), captured[i]);
      convert(code, captured[i], parameters.get(i));
    }
    for (int i = 0; i < arguments.length; i++) {
      code.loadArg(i);
      convert(code, erased.getArgumentTypes()[i], arguments[i]);
      convert(code, arguments[i], parameters.get(captured.length + i));
    }
    code.visitMethodInsn(
        call(body), body.getOwner(), body.getName(), body.getDesc(), body.isInterface());
    Type result = makes ? owner : Type.getReturnType(body.getDesc());
    if (erased.getReturnType().getSort() != Type.VOID) {
      convert(code, result, erased.getReturnType());
    } else if (result.getSize() == 2) {
      code.pop2();
    } else if (result.getSize() == 1) {
      code.pop();
    }
    code.returnValue();
    code.endMethod();
  }

  /** Private methods of the nest are called as others are. */
  private static int call(Handle body) {
    return switch (body.getTag()) {
      case Opcodes.H_INVOKESTATIC -> Opcodes.INVOKESTATIC;
      case Opcodes.H_NEWINVOKESPECIAL -> Opcodes.INVOKESPECIAL;
      default -> body.isInterface() ? Opcodes.INVOKEINTERFACE : Opcodes.INVOKEVIRTUAL;
    };
  }

  private static void convert(GeneratorAdapter code, Type from, Type to) {
    if (from.equals(to)) {
      return;
    }
    if (isPrimitive(from) && isPrimitive(to)) {
      code.cast(from, to);
    } else if (isPrimitive(from)) {
      code.valueOf(from);
    } else if (isPrimitive(to)) {
      Type own = BOXED.getOrDefault(from, to);
      code.unbox(own);
      convert(code, own, to);
    } else if (!to.equals(OBJECT)) {
      code.checkCast(to);
    }
  }

  private static boolean isPrimitive(Type type) {
    return type.getSort() < Type.ARRAY;
  }

  // --- Records -----------------------------------------------------------------------------------

  /** Adds a record's toString, hashCode or equals as a static method; returns its call. */
  private static MethodInsnNode record(ClassNode owner, InvokeDynamicInsnNode dynamic) {
    Method method = new Method("record$" + dynamic.name, dynamic.desc);
    int access = Opcodes.ACC_PRIVATE | Opcodes.ACC_STATIC | Opcodes.ACC_SYNTHETIC;
    MethodNode node = new MethodNode(access, method.getName(), method.getDescriptor(), null, null);
    node.maxStack = 6; // two longs, and two words of a builder or a sum
    node.maxLocals = 2;
    GeneratorAdapter code = new GeneratorAdapter(node, access, method.getName(), dynamic.desc);
    List<Handle> fields = new ArrayList<>();
    for (int i = 2; i < dynamic.bsmArgs.length; i++) {
      fields.add((Handle) dynamic.bsmArgs[i]);
    }
    switch (dynamic.name) {
      case "toString" -> addText(code, owner, fields);
      case "hashCode" -> addHash(code, fields);
      case "equals" -> addEquality(code, node, owner, fields);
      default -> throw new IllegalArgumentException(owner.name + "." + dynamic.name);
    }
    owner.methods.add(node);
    return new MethodInsnNode(
        Opcodes.INVOKESTATIC,
        owner.name,
        method.getName(),
        method.getDescriptor(),
        /* isInterface= */ false);
  }

  private static Type get(GeneratorAdapter code, Handle field) {
    Type type = Type.getType(field.getDesc());
    code.getField(Type.getObjectType(field.getOwner()), field.getName(), type);
    return type;
  }

  private static String simpleName(ClassNode owner) {
    return owner.innerClasses.stream()
        .filter(each -> each.name.equals(owner.name) && each.innerName != null)
        .map(each -> each.innerName)
        .findFirst()
        .orElse(owner.name.substring(owner.name.lastIndexOf('/') + 1));
  }

  private static void addText(GeneratorAdapter code, ClassNode owner, List<Handle> fields) {
    code.newInstance(BUILDER);
    code.dup();
    code.invokeConstructor(BUILDER, constructor());
    String before = simpleName(owner) + "[";
    for (Handle field : fields) {
      append(code, before + field.getName() + "=");
      code.loadArg(0);
      Type type = get(code, field);
      Type appended =
          switch (type.getSort()) {
            case Type.BYTE, Type.SHORT -> Type.INT_TYPE;
            case Type.ARRAY, Type.OBJECT -> OBJECT;
            default -> type;
          };
      code.invokeVirtual(BUILDER, new Method("append", BUILDER, new Type[] {appended}));
      before = ", ";
    }
    append(code, fields.isEmpty() ? before + "]" : "]");
    code.invokeVirtual(BUILDER, new Method("toString", "()Ljava/lang/String;"));
    code.returnValue();
  }

  private static void append(GeneratorAdapter code, String text) {
    code.push(text);
    code.invokeVirtual(
        BUILDER, new Method("append", BUILDER, new Type[] {Type.getType(String.class)}));
  }

  private static void addHash(GeneratorAdapter code, List<Handle> fields) {
    code.push(0);
    for (Handle field : fields) {
      code.push(31);
      code.math(GeneratorAdapter.MUL, Type.INT_TYPE);
      code.loadArg(0);
      Type type = get(code, field);
      Type its = isPrimitive(type) ? boxOf(type) : Type.getObjectType(OBJECTS);
      Type argument = isPrimitive(type) ? type : OBJECT;
      code.invokeStatic(its, new Method("hashCode", Type.INT_TYPE, new Type[] {argument}));
      code.math(GeneratorAdapter.ADD, Type.INT_TYPE);
    }
    code.returnValue();
  }

  private static Type boxOf(Type primitive) {
    return BOXED.entrySet().stream()
        .filter(each -> each.getValue().equals(primitive))
        .map(Map.Entry::getKey)
        .findFirst()
        .orElseThrow();
  }

  private static void addEquality(
      GeneratorAdapter code, MethodNode node, ClassNode owner, List<Handle> fields) {
    Type record = Type.getObjectType(owner.name);
    Label same = code.newLabel();
    Label different = code.newLabel();
    code.loadArg(0);
    code.loadArg(1);
    code.ifCmp(OBJECT, GeneratorAdapter.EQ, same);
    code.loadArg(1);
    code.instanceOf(record);
    code.ifZCmp(GeneratorAdapter.EQ, different);
    for (Handle field : fields) {
      code.loadArg(0);
      get(code, field);
      code.loadArg(1);
      code.checkCast(record);
      Type type = get(code, field);
      switch (type.getSort()) {
        case Type.FLOAT, Type.DOUBLE -> {
          code.invokeStatic(
              boxOf(type), new Method("compare", Type.INT_TYPE, new Type[] {type, type}));
          code.ifZCmp(GeneratorAdapter.NE, different);
        }
        case Type.ARRAY, Type.OBJECT -> {
          code.invokeStatic(
              Type.getObjectType(OBJECTS),
              new Method("equals", Type.BOOLEAN_TYPE, new Type[] {OBJECT, OBJECT}));
          code.ifZCmp(GeneratorAdapter.EQ, different);
        }
        default -> code.ifCmp(type, GeneratorAdapter.NE, different);
      }
    }
    code.mark(same);
    node.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
    code.push(true);
    code.returnValue();
    code.mark(different);
    node.visitFrame(Opcodes.F_SAME, 0, null, 0, null);
    code.push(false);
    code.returnValue();
  }
}
