package org.nccl4j.it.transport;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.TransportProvider;
import org.nccl4j.testkit.Check;
import org.nccl4j.testkit.TransportContract;

/** The contract notices: each defect makes the check fail that is about it. */
final class BrokenTransportTest {
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "LONG_HANDLE | a handle has at most 1024 bytes",
        "NOT_ZEROED | regions are large enough, aligned to 256 bytes and zero",
        "MISALIGNED | regions are large enough, aligned to 256 bytes and zero",
        "TOO_SMALL | regions are large enough, aligned to 256 bytes and zero",
        "ONE_REGION_FOR_ALL | no two connections share a byte",
        "PRIVATE_COPY | each end sees what the other stores, in every byte",
        "NEVER_CLOSES | connected and closed, nothing is left",
        "NEVER_CLOSES | closing twice does nothing, and afterwards nothing can be used",
        "BELIEVES_ANY_HANDLE | a bad handle is an error and not a connection",
        "FREES_TOO_EARLY | a rank that closes leaves the other its memory",
        "NO_REASON | a peer in reach is reached, with the reason",
        "SLOW_CLOSE | closing does not wait for the peer",
        "SLOW_CONNECT | connecting never waits for a peer that never answers",
      })
  void isCaught(BrokenProvider.Defect defect, String check) {
    Check about =
        new Broken(defect)
            .checks().stream().filter(c -> c.name().equals(check)).findFirst().orElseThrow();
    assertThrows(Throwable.class, about::run);
  }

  @Test
  void nothingElseIsHeldAgainstIt() throws IOException {
    for (Check check : new Broken(BrokenProvider.Defect.FREES_TOO_EARLY).checks()) {
      if (!check.name().equals("a rank that closes leaves the other its memory")) {
        check.run();
      }
    }
  }

  /** Else a check would pass that has looked at nothing. */
  @Test
  void whatCannotBeLookedAtHasToBeDeclared() {
    TransportContract silent =
        new TransportContract() {
          @Override
          protected TransportProvider provider() {
            return new BrokenProvider(BrokenProvider.Defect.FREES_TOO_EARLY);
          }
        };
    Map<String, String> missing =
        Map.of(
            "a peer out of reach", "override unreachable", "nothing is left", "override filesOf");
    missing.forEach(
        (name, remedy) -> {
          Check check =
              silent.checks().stream()
                  .filter(c -> c.name().contains(name))
                  .findFirst()
                  .orElseThrow();
          Throwable error = assertThrows(Throwable.class, check::run);
          assertTrue(error.getMessage().contains(remedy), error.toString());
        });
  }

  /** The contract of a transport with a defect. */
  private static final class Broken extends TransportContract {
    private final BrokenProvider.Defect defect;

    Broken(BrokenProvider.Defect defect) {
      this.defect = defect;
    }

    @Override
    protected TransportProvider provider() {
      return new BrokenProvider(defect);
    }

    @Override
    protected Map<String, String> settings() {
      return Map.of();
    }

    @Override
    protected boolean acrossProcesses() {
      return false;
    }

    @Override
    protected boolean reachesAll() {
      return true;
    }

    @Override
    protected boolean usesNoFiles() {
      return true;
    }
  }
}
