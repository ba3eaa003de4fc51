package org.nccl4j.transport.net.proxy;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.ProxyHandler;

/** The turns of the channels of one end. */
class PolledProxiesTest {
  /** Has work once for each step that it is given. */
  private static final class Channel implements ProxyHandler {
    private int turns;
    private int steps;
    private final List<String> told = new ArrayList<>();

    @Override
    public int doWork() {
      turns++;
      int done = steps;
      steps = 0;
      return done;
    }

    @Override
    public boolean isUnderWay() {
      return steps > 0;
    }

    @Override
    public void endExposures() {
      told.add("exposures");
    }

    @Override
    public void endReceives() {
      told.add("receives");
    }

    @Override
    public void forgetBuffers() {
      told.add("buffers");
    }
  }

  private final List<Channel> channels = Stream.generate(Channel::new).limit(8).toList();
  private final PolledProxies all = new PolledProxies(List.copyOf(channels));

  private void turns(int number) {
    for (int turn = 0; turn < number; turn++) {
      all.doWork();
    }
  }

  @Test
  void quietChannelsGetFewTurnsAndAreNotForgotten() {
    turns(1600);
    assertEquals(1600, channels.get(0).turns);
    assertEquals(100, channels.get(1).turns);
    assertEquals(100, channels.get(7).turns);
    channels.get(7).steps = 1;
    assertTrue(all.isUnderWay());
    turns(16);
    assertEquals(0, channels.get(7).steps);
    assertFalse(all.isUnderWay());
  }

  @Test
  void allChannelsAreToldOfTheEndOfBuffers() {
    all.forgetBuffers();
    all.endReceives();
    all.endExposures();
    for (Channel channel : channels) {
      assertEquals(List.of("buffers", "receives", "exposures"), channel.told);
    }
  }

  @Test
  void anOperationOnAllChannelsIsSeenInFourTurns() {
    turns(16);
    int turns = 0;
    for (; turns < 4; turns++) {
      channels.forEach(channel -> channel.steps = 1);
      all.doWork();
    }
    assertTrue(channels.stream().allMatch(channel -> channel.steps == 0));
  }

  @Test
  void anOperationOnOneChannelHasFewOthersLookedAt() {
    for (int turn = 0; turn < 1600; turn++) {
      channels.get(0).steps = 1;
      all.doWork();
    }
    assertEquals(1599, channels.get(1).turns);
    assertEquals(100, channels.get(2).turns);
  }

  @Test
  void channelsWithWorkKeepTheAttentionForAWhile() {
    channels.get(7).steps = 1;
    turns(16);
    int before = channels.get(7).turns;
    turns(200);
    assertEquals(before + 200, channels.get(7).turns);
    turns(10_000);
    assertTrue(channels.get(7).turns < before + 1000, "the attention ends");
  }
}
