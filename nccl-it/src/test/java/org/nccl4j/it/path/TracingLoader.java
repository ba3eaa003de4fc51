package org.nccl4j.it.path;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Loads the project's classes anew, with a call of {@link Entries#enter} at the beginning of each
 * method that is no accessor ({@link Accessors}) and not of an enum.
 */
final class TracingLoader extends ClassLoader {
  private static final String OURS = "org.nccl4j.";
  private static final String ENTRIES = Entries.class.getName();
  private static final int API = Opcodes.ASM9;

  private final Accessors accessors;

  TracingLoader(ClassLoader parent) {
    super(parent);
    accessors = new Accessors(parent);
  }

  @Override
  protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
    if (!name.startsWith(OURS) || name.equals(ENTRIES)) {
      return super.loadClass(name, resolve);
    }
    synchronized (getClassLoadingLock(name)) {
      Class<?> known = findLoadedClass(name);
      return known == null ? define(name) : known;
    }
  }

  private Class<?> define(String name) throws ClassNotFoundException {
    try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
      if (in == null) {
        throw new ClassNotFoundException(name);
      }
      ClassReader reader = new ClassReader(in);
      ClassWriter writer = new ClassWriter(reader, 0);
      reader.accept(new Tracer(name, writer), 0);
      byte[] code = writer.toByteArray();
      return defineClass(name, code, 0, code.length);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private final class Tracer extends ClassVisitor {
    private final String type;

    Tracer(String type, ClassVisitor target) {
      super(API, target);
      this.type = type;
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String descriptor, String signature, String[] exceptions) {
      MethodVisitor target = super.visitMethod(access, name, descriptor, signature, exceptions);
      String own = type.replace('.', '/');
      if (accessors.isEnum(own) || accessors.has(own, name, descriptor)) {
        return target;
      }
      String entry = type + "." + name;
      return new MethodVisitor(API, target) {
        @Override
        public void visitCode() {
          super.visitCode();
          super.visitLdcInsn(entry);
          super.visitMethodInsn(
              Opcodes.INVOKESTATIC,
              ENTRIES.replace('.', '/'),
              "enter",
              "(Ljava/lang/String;)V",
              false);
        }

        @Override
        public void visitMaxs(int stack, int locals) {
          super.visitMaxs(Math.max(stack, 1), locals);
        }
      };
    }
  }
}
