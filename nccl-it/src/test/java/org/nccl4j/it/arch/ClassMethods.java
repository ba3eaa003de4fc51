package org.nccl4j.it.arch;

import com.tngtech.archunit.core.domain.JavaClass;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Reads the methods of a class file, of which ArchUnit knows neither instructions nor lengths. */
final class ClassMethods {
  /**
   * A method.
   *
   * @param access flags as the JVM has them
   */
  record Method(String name, int access, MethodCode code) {
    boolean has(int flag) {
      return (access & flag) != 0;
    }

    /** True for constructors and initializers, which have the lines of all fields with values. */
    boolean isInitializer() {
      return name.startsWith("<");
    }
  }

  private ClassMethods() {}

  /** Returns the methods and constructors of a class, without those of its nested classes. */
  static List<Method> of(JavaClass type) {
    List<Method> methods = new ArrayList<>();
    try (InputStream in = type.getSource().orElseThrow().getUri().toURL().openStream()) {
      new ClassReader(in)
          .accept(
              new ClassVisitor(Opcodes.ASM9) {
                @Override
                public MethodVisitor visitMethod(
                    int access,
                    String name,
                    String descriptor,
                    String signature,
                    String[] exceptions) {
                  MethodCode code = new MethodCode();
                  methods.add(new Method(name, access, code));
                  return code;
                }
              },
              ClassReader.SKIP_FRAMES);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return methods;
  }
}
