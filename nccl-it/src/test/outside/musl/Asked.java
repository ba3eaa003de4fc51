import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Arrays;

/** Prints what nccl4j asks of a C library: file names, functions, and the numbers that it passes. */
public class Asked {
  /** Prints a line for each: its kind, its name and, of a number, its value. */
  public static void main(String[] args) throws Exception {
    Class<?> names = Class.forName("org.nccl4j.device.bind.NativeNames");
    Object libc = names.getField("LIBC").get(null);
    for (Object file : (Iterable<?>) names.getMethod("files").invoke(libc)) {
      if (!file.toString().isEmpty()) {
        System.out.println("file " + file);
      }
    }
    Arrays.stream(Class.forName("org.nccl4j.device.bind.LibcFunctions").getMethods())
        .forEach(function -> System.out.println("function " + function.getName()));
    for (String type : new String[] {"Libc", "Datagram"}) {
      for (Field field : Class.forName("org.nccl4j.device.shm." + type).getDeclaredFields()) {
        boolean number = field.getType() == int.class || field.getType() == short.class;
        if (number && Modifier.isStatic(field.getModifiers())) {
          field.setAccessible(true);
          System.out.println("number " + field.getName() + " " + field.get(null));
        }
      }
    }
  }
}
