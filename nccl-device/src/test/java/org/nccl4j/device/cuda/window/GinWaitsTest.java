package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.DeviceHeaders;
import org.nccl4j.device.cuda.NativeBuild;

/**
 * The waits of users' kernels for signals of ranks on one machine: the classes of the header,
 * compiled for the host with stand-ins for what GPUs have.
 */
@Timeout(600)
class GinWaitsTest {
  private static final String HEADER = "nccl4j_device.cuh";
  private static final String STAND_INS =
      """
      #include <stdio.h>
      #include <stdlib.h>
      #include "nccl4j_device.cuh"
      #define __device__
      enum class Order { relaxed, acquire, release, acqRel };
      struct CoopThread {
        int rank() const { return 0; }
        void sync() const {}
        bool all(bool mine) const { return mine; }
      };
      static uint64_t now;
      static uint64_t nanoseconds() { return now += 1000; }
      static nccl4jGinRing ring;
      static long looks, failure;
      static uint64_t load(const uint64_t* from, Order) {
        if (++looks == failure) ring.state = 1;
        if (looks == 10000000) {
          puts("waits for ever");
          exit(0);
        }
        return *from;
      }
      static void store(uint64_t* to, uint64_t value, Order) { *to = value; }
      static void __threadfence_system() {}
      static unsigned long long atomicCAS(unsigned long long*, unsigned long long, unsigned long long) {
        puts("posts");
        exit(0);
      }
      template <class T>
      static T* peerPointer(const nccl4jWindow& w, int place, size_t offset) {
        return (T*)(w.base + place * w.stride + offset);
      }
      template <class T>
      static T* localPointer(const nccl4jWindow& w, size_t offset) {
        return peerPointer<T>(w, w.place, offset);
      }
      template <class T>
      class SymPtr;
      """;
  private static final String PROGRAM =
      """
      static void expect(bool right, const char* what) {
        if (right) return;
        puts(what);
        exit(0);
      }
      int main() {
        static uint64_t memory[2][16];
        nccl4jDeviceCommunicator c = {};
        c.nRanks = 2;
        c.resources.base = (uint64_t)memory;
        c.resources.stride = sizeof memory[0];
        c.resources.team = 2;
        c.gin.ring = (uint64_t)&ring;
        c.gin.signals = 64;
        c.gin.signalCount = 2;
        ring.signals[0] = 77;  // of nobody
        const Gin gin(c);
        Gin waits(c);
        expect(gin.signals(0) == 0, "counts signals of other machines");
        expect(!waits.waitSignal(CoopThread(), 1, 1, 1000000), "a signal came");
        expect(ring.problem == (2ull << 32 | 1), "does not say what it waited for");
        ring.problem = 0;
        failure = looks + 5000;
        expect(!waits.waitSignal(CoopThread(), 1, 1, ~0ull), "a signal came after the failure");
        expect(ring.problem == 0, "calls a failure a deadline");
        memory[0][9] = 3;
        expect(waits.waitSignal(CoopThread(), 1, 3, 1000000), "does not see a signal");
        expect(waits.flush(CoopThread(), 0) && waits.quiet(CoopThread(), 0), "waits for no puts");
      }
      """;

  @TempDir Path folder;

  @Test
  void theyEndAtTheDeadlineAndWithTheCommunicator() throws Exception {
    String header;
    try (InputStream in = DeviceHeaders.class.getResourceAsStream("include/" + HEADER)) {
      header = new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
    Files.writeString(folder.resolve(HEADER), header);
    Path source = folder.resolve("waits.cc");
    Files.writeString(source, STAND_INS + type(header, "Deadline") + type(header, "Gin") + PROGRAM);
    String program = folder.resolve("waits").toString();
    NativeBuild.nvcc("-x", "c++", "-std=c++17", "-o", program, source.toString());
    Process process = new ProcessBuilder(program).start();
    String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, process.waitFor());
    assertEquals("", output);
  }

  /** The text of a class. */
  private static String type(String header, String name) {
    int begin = header.indexOf("\nclass " + name + " {");
    return header.substring(begin, header.indexOf("\n};\n", begin) + 4);
  }
}
