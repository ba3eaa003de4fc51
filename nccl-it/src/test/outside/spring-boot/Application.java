package org.example.boot;

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
  public void run(String... arguments) {
    System.out.println(Sum.class.getClassLoader().getClass().getSimpleName());
    Sum.main(arguments);
  }
}
