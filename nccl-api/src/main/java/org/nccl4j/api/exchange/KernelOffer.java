package org.nccl4j.api.exchange;

import java.util.Optional;
import java.util.function.Function;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.device.kernel.ExpertKernels.Form;

/**
 * The kernels between windows by which a rank can make the calls of an exchange.
 *
 * @param form the best form; without blocks if there are none
 * @param obstacle the reason why there are none; else empty
 */
public record KernelOffer(Form form, String obstacle) {
  /** No kernels, of a rank that has an error. */
  public static final KernelOffer NONE = new KernelOffer(Form.NONE, "");

  /**
   * A rank's own kernels, which are loaded then.
   *
   * @param kernels of the rank's device, if it has any
   * @param best the best form of these, without blocks if they do not take the sizes
   */
  public static <K> KernelOffer of(
      CommunicatorState state, Optional<K> kernels, Function<K, Form> best) {
    int n = state.nRanks();
    int reached = state.windows().team().size();
    String obstacle = "";
    Form form = Form.NONE;
    if (kernels.isEmpty()) {
      obstacle = "the %s device has none".formatted(state.device().name());
    } else if (reached < n) {
      obstacle =
          "%d of %d ranks reach its windows: those of one machine or NVLink clique and of one user whose GPUs reach each other"
              .formatted(reached, n);
    } else {
      form = best.apply(kernels.orElseThrow());
      obstacle =
          form.blocks() > 0 ? "" : "its kernels do not take the sizes, or this build has none";
    }
    return new KernelOffer(form, obstacle);
  }

  /** True if there are kernels. */
  public boolean hasKernels() {
    return form.blocks() > 0;
  }

  /** Logs which of the two ways the calls of an exchange take, once for each communicator. */
  public void tell(CommunicatorState state, String call) {
    state.tellWay(
        hasKernels()
            ? "runs each call of %s as a kernel between windows".formatted(call)
            : "runs calls of %s by sends and receives, for which the host waits: %s"
                .formatted(call, obstacle));
  }
}
