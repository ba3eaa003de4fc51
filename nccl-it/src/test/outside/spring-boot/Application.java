package org.example.boot;

import org.example.sum.FindKernels;
import org.example.sum.Sum;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

/** A Spring Boot application, whose classes come from jars inside its jar. */
@SpringBootApplication
public class Application implements CommandLineRunner {
  public static void main(String[] arguments) {
    SpringApplication.run(Application.class, arguments);
  }

  @Override
  public void run(String... arguments) throws ReflectiveOperationException {
    System.out.println(Sum.class.getClassLoader().getClass().getSimpleName());
    FindKernels.main(arguments);
    Sum.main(arguments);
  }
}
