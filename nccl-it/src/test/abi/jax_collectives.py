"""Compares JAX's collectives over all GPUs of this process with what they should give."""
import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

devices = [each for each in jax.devices() if each.platform == "gpu"]
n = len(devices)
mesh = Mesh(np.array(devices), ("i",))
shard_map = getattr(jax, "shard_map", None)
if shard_map is None:
    from jax.experimental.shard_map import shard_map


def run(body, x, into=P("i")):
    return np.asarray(jax.jit(shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=into))(x))


x = jnp.arange(n * n * 8, dtype=jnp.float32).reshape(n * n, 8)
parts = np.asarray(x).reshape(n, n, 8)
np.testing.assert_array_equal(run(lambda a: jax.lax.psum(a, "i"), x, P()), parts.sum(0))
np.testing.assert_array_equal(
    run(lambda a: jax.lax.all_gather(a, "i").reshape(-1, 8), x), np.tile(np.asarray(x), (n, 1)))
np.testing.assert_array_equal(
    run(lambda a: jax.lax.all_to_all(a, "i", 0, 0), x), parts.transpose(1, 0, 2).reshape(n * n, 8))
np.testing.assert_array_equal(
    run(lambda a: jax.lax.ppermute(a, "i", [(k, (k + 1) % n) for k in range(n)]), x),
    np.roll(parts, 1, 0).reshape(n * n, 8))
np.testing.assert_array_equal(
    run(lambda a: jax.lax.psum_scatter(a, "i"), x).reshape(n, 8), parts.sum(0).reshape(n, 8))
print("all was right")
