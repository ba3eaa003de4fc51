package org.nccl4j.it.arch;

import com.tngtech.archunit.core.domain.Dependency;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;

/**
 * Limits for cycles of types and for the size of packages, methods and files. A type counts with
 * all that is nested in it, as a file does. It names the types in its class files and those in its
 * source.
 *
 * @param cycle most types that name each other in a circle
 * @param files most files of a package
 * @param methodLines most lines of a method
 * @param fileLines most lines of a file
 */
record StructureLimits(int cycle, int files, int methodLines, int fileLines) {

  /** Methods that are one switch from numbers to names. */
  private static final Set<String> TABLES = Set.of("org.nccl4j.device.cuda.driver.ResultNames.of");

  /** The project's, without exceptions. */
  static StructureLimits ofProject() {
    return new StructureLimits(5, 30, 60, 1000);
  }

  /** Nothing is allowed beyond one type, one file and one line. */
  static StructureLimits least() {
    return new StructureLimits(1, 1, 1, 1);
  }

  /** No cycle of types is larger than allowed. */
  ArchCondition<JavaClass> haveShortCycles(String root) {
    return new ArchCondition<>("have cycles of at most " + cycle + " types") {
      private final SourceNames sources = new SourceNames();
      private final Map<String, Set<String>> names = new TreeMap<>();

      @Override
      public void check(JavaClass type, ConditionEvents events) {
        Set<String> from = names.computeIfAbsent(file(type.getName()), this::inSource);
        for (Dependency dependency : type.getDirectDependenciesFromSelf()) {
          String to = file(dependency.getTargetClass().getBaseComponentType().getName());
          if (to.startsWith(root + ".")) {
            from.add(to);
          }
        }
      }

      private Set<String> inSource(String type) {
        Set<String> found = new TreeSet<>();
        if (!type.endsWith("-info")) {
          sources.of(type).stream().filter(name -> name.startsWith(root + ".")).forEach(found::add);
        }
        return found;
      }

      @Override
      public void finish(ConditionEvents events) {
        for (Set<String> all : new Cycles(names).all()) {
          events.add(
              new SimpleConditionEvent(
                  all, all.size() <= cycle, all.size() + " types name each other: " + all));
        }
      }
    };
  }

  /** No package has more files than allowed. */
  ArchCondition<JavaClass> bePackagedInFewFiles(String root) {
    return new ArchCondition<>("be in packages of at most " + files + " files") {
      private final Map<String, Set<String>> found = new TreeMap<>();

      @Override
      public void check(JavaClass type, ConditionEvents events) {
        String file = file(type.getName());
        if (file.startsWith(root + ".") && !file.endsWith(".package-info")) {
          found.computeIfAbsent(home(file), key -> new TreeSet<>()).add(file);
        }
      }

      @Override
      public void finish(ConditionEvents events) {
        found.forEach(
            (name, all) ->
                events.add(
                    new SimpleConditionEvent(
                        name, all.size() <= files, name + " has " + all.size() + " files")));
      }
    };
  }

  /** No method but a table has more lines than allowed, from its first statement to its last. */
  ArchCondition<JavaClass> haveShortMethods() {
    return new ArchCondition<>("have methods of at most " + methodLines + " lines") {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        for (ClassMethods.Method method : ClassMethods.of(type)) {
          int length = method.isInitializer() ? 0 : method.code().lines();
          String name = type.getName() + "." + method.name();
          events.add(
              new SimpleConditionEvent(
                  type,
                  length <= methodLines || TABLES.contains(name),
                  name + " has " + length + " lines"));
        }
      }
    };
  }

  /** No file has more lines than allowed up to its last statement. */
  ArchCondition<JavaClass> beInShortFiles() {
    return new ArchCondition<>("be in files of at most " + fileLines + " lines") {
      @Override
      public void check(JavaClass type, ConditionEvents events) {
        for (ClassMethods.Method method : ClassMethods.of(type)) {
          int last = method.code().lastLine();
          events.add(
              new SimpleConditionEvent(
                  type,
                  last <= fileLines,
                  type.getName() + "." + method.name() + " ends in line " + last));
        }
      }
    };
  }

  private static String file(String type) {
    int nested = type.indexOf('$');
    return nested < 0 ? type : type.substring(0, nested);
  }

  private static String home(String type) {
    return type.substring(0, type.lastIndexOf('.'));
  }

  /** The strongly connected components of a graph, by Tarjan's algorithm. */
  private static final class Cycles {
    private final Map<String, Set<String>> graph;
    private final Map<String, Integer> numbers = new HashMap<>();
    private final Map<String, Integer> lowest = new HashMap<>();
    private final List<String> open = new ArrayList<>();
    private final List<Set<String>> found = new ArrayList<>();

    Cycles(Map<String, Set<String>> graph) {
      this.graph = graph;
    }

    /** Those of two types and more. */
    List<Set<String>> all() {
      for (String type : graph.keySet()) {
        if (!numbers.containsKey(type)) {
          visit(type);
        }
      }
      return found;
    }

    private void visit(String type) {
      int number = numbers.size();
      numbers.put(type, number);
      lowest.put(type, number);
      open.add(type);
      for (String next : graph.getOrDefault(type, Set.of())) {
        if (!numbers.containsKey(next)) {
          visit(next);
          lowest.merge(type, lowest.get(next), Math::min);
        } else if (open.contains(next)) {
          lowest.merge(type, numbers.get(next), Math::min);
        }
      }
      if (lowest.get(type) == number) {
        List<String> top = open.subList(open.indexOf(type), open.size());
        if (top.size() > 1) {
          found.add(new TreeSet<>(top));
        }
        top.clear();
      }
    }
  }
}
