package org.nccl4j.device.bind;

import java.lang.invoke.CallSite;
import java.lang.invoke.ConstantCallSite;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Makes a class for an interface whose methods are a library's functions. Each method is one
 * invokedynamic instruction, linked at its first call to a constant handle of the JDK's foreign
 * functions, which the compiler inlines. A warm call allocates nothing.
 */
public final class ForeignLibrary {
  private ForeignLibrary() {}

  static <T> T load(Class<T> type, String name, Object library) {
    Stubs stubs = new Stubs(type, name, library);
    try {
      return type.cast(stubs.define().getConstructor().newInstance());
    } catch (ReflectiveOperationException e) {
      throw new LinkageError("the functions of " + name + " cannot be bound", e);
    }
  }

  /**
   * Links a method of a class that {@link #load} made to the function of its name. Called by the
   * JVM alone.
   *
   * @throws UnsatisfiedLinkError if the library has no such function
   */
  public static CallSite link(MethodHandles.Lookup caller, String name, MethodType type) {
    if (!(caller.lookupClass().getClassLoader() instanceof Stubs stubs)) {
      throw new IllegalCallerException("only classes of native functions are linked");
    }
    return stubs.link(name, type);
  }

  /** The loader of one such class, as jnr-ffi has it too: in an unnamed module. */
  private static final class Stubs extends ClassLoader {
    private final Class<?> type;
    private final String file;
    private final Object library;

    Stubs(Class<?> type, String file, Object library) {
      super(type.getClassLoader());
      this.type = type;
      this.file = file;
      this.library = library;
    }

    Class<?> define() {
      ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
      String name = type.getName().replace('.', '/') + "$Native";
      String[] interfaces = {Type.getInternalName(type)};
      writer.visit(
          Opcodes.V17, Opcodes.ACC_PUBLIC | Opcodes.ACC_FINAL, name, null, OBJECT, interfaces);
      MethodVisitor init = writer.visitMethod(Opcodes.ACC_PUBLIC, "<init>", "()V", null, null);
      init.visitCode();
      init.visitVarInsn(Opcodes.ALOAD, 0);
      init.visitMethodInsn(Opcodes.INVOKESPECIAL, OBJECT, "<init>", "()V", false);
      init.visitInsn(Opcodes.RETURN);
      init.visitMaxs(0, 0);
      init.visitEnd();
      for (Method method : type.getMethods()) {
        if (Modifier.isAbstract(method.getModifiers())) {
          function(writer, method);
        }
      }
      writer.visitEnd();
      byte[] code = writer.toByteArray();
      return defineClass(name.replace('/', '.'), code, 0, code.length);
    }

    private static void function(ClassWriter writer, Method method) {
      String types = Type.getMethodDescriptor(method);
      MethodVisitor code =
          writer.visitMethod(Opcodes.ACC_PUBLIC, method.getName(), types, null, null);
      code.visitCode();
      int at = 1;
      for (Type argument : Type.getArgumentTypes(types)) {
        code.visitVarInsn(argument.getOpcode(Opcodes.ILOAD), at);
        at += argument.getSize();
      }
      code.visitInvokeDynamicInsn(method.getName(), types, LINK);
      code.visitInsn(Type.getReturnType(types).getOpcode(Opcodes.IRETURN));
      code.visitMaxs(0, 0);
      code.visitEnd();
    }

    CallSite link(String name, MethodType signature) {
      long address = ForeignAccess.symbol(library, name);
      if (address == 0) {
        throw new UnsatisfiedLinkError("%s has no function %s".formatted(file, name));
      }
      boolean errno = type.isAnnotationPresent(SetsErrno.class);
      return new ConstantCallSite(ForeignAccess.downcall(address, signature, errno));
    }

    private static final String OBJECT = "java/lang/Object";
    private static final Handle LINK =
        new Handle(
            Opcodes.H_INVOKESTATIC,
            Type.getInternalName(ForeignLibrary.class),
            "link",
            MethodType.methodType(
                    CallSite.class, MethodHandles.Lookup.class, String.class, MethodType.class)
                .toMethodDescriptorString(),
            false);
  }
}
