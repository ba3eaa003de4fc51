package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.transport.net.ib.bind.FakeVerbsFunctions;
import org.nccl4j.transport.net.ib.device.IbSettings;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** The libibverbs of fakeverbs.c in this process, and devices for it. */
final class FakeVerbs {
  static final long IPV4_HIGH = 0;
  static final long IPV4_LOOPBACK = 0x0000ffff7f000001L;
  private static final int GID_TYPE_IB = 0;
  private static String path;
  private static FakeVerbsFunctions library;

  private FakeVerbs() {}

  /** Loads it once and forgets all; skips the test, with the reason, where it cannot be built. */
  static synchronized FakeVerbsFunctions empty() {
    if (library == null) {
      try {
        Path built = Files.createTempDirectory("fakeverbs").resolve("libfakeverbs.so");
        NativeBuild.gcc(
            "-shared",
            "-fPIC",
            "-O1",
            "-Wall",
            "-pthread",
            "-o",
            built.toString(),
            NativeBuild.source("src/test/c/fakeverbs.c").toString());
        built.toFile().deleteOnExit();
        built.getParent().toFile().deleteOnExit();
        library = NativeLibrary.load(FakeVerbsFunctions.class, built.toString());
        path = built.toString();
      } catch (IOException e) {
        throw new AssertionError(e);
      }
    }
    library.fake_reset();
    return library;
  }

  /** The file of the library. */
  static String path() {
    return path;
  }

  /** A RoCE device whose GID 1 is 127.0.0.1 in RoCE v2; MTU 5 is 4096 bytes. */
  static int addRoce(FakeVerbsFunctions fake, String name, int mtu) {
    int device =
        fake.fake_add_device(
            name,
            VerbsLayout.TRANSPORT_IB,
            VerbsLayout.PORT_ACTIVE,
            VerbsLayout.LINK_LAYER_ETHERNET,
            mtu);
    fake.fake_set_gid(device, 0, 0xfe80L << 48, 1, VerbsLayout.GID_TYPE_ROCE_V1);
    fake.fake_set_gid(device, 1, IPV4_HIGH, IPV4_LOOPBACK, VerbsLayout.GID_TYPE_ROCE_V2);
    return device;
  }

  /** An InfiniBand device, MTU 2048, whose LID is 7 and its place; its GID 0 is on a subnet. */
  static int addInfiniBand(FakeVerbsFunctions fake, String name, long subnet) {
    int device =
        fake.fake_add_device(
            name,
            VerbsLayout.TRANSPORT_IB,
            VerbsLayout.PORT_ACTIVE,
            VerbsLayout.LINK_LAYER_INFINIBAND,
            4);
    fake.fake_set_gid(device, 0, subnet, 0xa0L + device, GID_TYPE_IB);
    return device;
  }

  /** The recorded calls that begin with a word, each once, in order. */
  static List<String> calls(FakeVerbsFunctions fake, String word) {
    return fake.fake_calls().lines().filter(call -> call.startsWith(word)).distinct().toList();
  }

  /** A rank's context with settings NAME, VALUE, ... */
  static NetContext context(int rank, byte[] secret, String... settings) {
    Map<String, String> values = new HashMap<>();
    values.put("NCCL_IBVERBS_LIB", path);
    for (int i = 0; i < settings.length; i += 2) {
      values.put(settings[i], settings[i + 1]);
    }
    return new NetContext() {
      @Override
      public int rank() {
        return rank;
      }

      @Override
      public byte[] secret() {
        return secret.clone();
      }

      @Override
      public Optional<String> setting(String name) {
        return Optional.ofNullable(values.get(name));
      }
    };
  }

  static NetContext context(int rank, String... settings) {
    return context(rank, new byte[16], settings);
  }

  static IbSettings settings(String... settings) {
    return IbSettings.of(context(0, settings));
  }
}
