/**
 * A connection and its layout in memory: the contract of transports, which map the memory, and of
 * devices, whose kernels use it. Layer: below the engine and the transports, beside the public
 * device types.
 *
 * <p>A connection carries data one way, from a sender to a receiver, in steps. It has two regions.
 * The data side lies with the receiver: a tail word for each channel, then 8 slots for each
 * protocol. The credit side lies with the sender: a head word for each channel. So each side polls
 * memory of its own and stores into memory of the other.
 *
 * <pre>
 * data side                         credit side
 *   0     tails  64 x (u64, sender writes)    0  heads  64 x (u64, receiver writes)
 *   8192  LL slots     8 x llSlotBytes
 *         LL128 slots  8 x ll128SlotBytes
 *         Simple slots 8 x simpleSlotBytes
 *         small steps  of the host device alone
 * </pre>
 *
 * <p>Step s uses slot s mod 8. In Simple the sender fills the slot, then stores tail = s + 1. The
 * step's bytes are stored first, 32 + 4 (s mod 8) bytes behind the tail, for the proxy that carries
 * the slot's contents to another machine; by GPUs only where a proxy does. The call's signature is
 * stored first too, 16 + 2 (s mod 8) bytes behind the tail. In LL and LL128 the data carry flags
 * made of s + 1 and the tail is not used. The host device, which cannot store 128 bytes at once,
 * has one flag of 8 bytes in an LL128 slot, at its beginning and stored last; the data follow. The
 * host's flags carry the call's signature ({@code CallSignature}): LL's 10 bits of it above the
 * lowest 22 bits of s, LL128's all 16 above 48 bits of s + 1. Before the former repeat, the
 * receiver clears each LL slot as it releases the last step that can have used it. In all of them
 * the receiver stores head = s + 1 once it has emptied the slot, and the sender fills step s only
 * when head is greater than s - 8. Both sides count the steps of a connection on from one operation
 * to the next.
 *
 * <p>The host device has other slots for LL128 steps of up to 1080 bytes. Among the words of the
 * channels that it does not use are 64 slots of 16 bytes at 3072 of the data side, for up to 8
 * bytes, and 64 slots of 64 bytes at 4096, for up to 56 bytes. Behind all slots are 64 of 192
 * bytes, for up to 184 bytes, then 32 of 1088 bytes. Step s uses slot s mod 64 or s mod 32 of
 * these, when head is greater than s - 64 or s - 32.
 *
 * <p>Words are 128 bytes apart. Channel c has the c-th 64th of every slot, and its own count of
 * steps; the host device uses channel 0 alone, with whole slots.
 *
 * <p>Of a GPU's connection that a proxy carries, a step in LL has a size as well, stored before the
 * lines: 2^31 + 65536 * its bytes + the call's signature. The sender's proxy stores 0 there before
 * the head, and the receiver's proxy clears a slot before flags repeat.
 *
 * <p>There a GPU's kernel may also leave the data of a step in Simple in its buffer, from where the
 * proxy sends them: the size then has 2^30 added, and 4096 + 8 (s mod 8) behind the tail is the
 * data's address. A receiver that wants them in its buffer stores at 4096 + 16 (s mod 8) behind the
 * head their address and 2^24 (s + 1) + their bytes, then s + 1 at 32 behind the head. The proxy
 * stores s + 1 at 4160 + 8 (s mod 8) behind the tail once they are there, before the tail; without
 * that the data are in the slot. These are words of channels that no network carries.
 *
 * <p>GPUs store the signature with the first step in Simple of a call alone, in 4 bytes: above s /
 * 8 modulo 65536, 16 + 4 (s mod 4) bytes behind the tail, and 96 more where s mod 8 is more than 3.
 *
 * <p>A GPU that receives a large message into a window offers the place: 64 bytes behind the head a
 * line of LL, with flag s + 1 for the message's first step s, that holds the place's offset in its
 * stretch of the flat range, or all ones where it has none. A sender that takes the offer stores
 * the data there, then s + 1 in 8 bytes 64 behind the tail, and tail = s + 1: the message is one
 * step.
 *
 * <p>Between hosts' ranks that can read each other's memory, the sender of a large step in Simple
 * may expose a part of its buffer instead of filling the slot. The step's size is then the
 * complement of its bytes, and the slot's first 8 bytes are the part's place: its address in the
 * sender's process, or in one process its offset in a memory that the receiver finds by number. The
 * receiver stores head = s + 1 once it has read the part. The sender offers that at 128 to 167 of
 * the data side, and takes back what it has exposed with the word at 256; the receiver answers at
 * 128 of the credit side, and says at 256 which step it reads. Channels 1 and 2, whose words these
 * would be, are not used on the host.
 *
 * <p>Layout version 11: exposed steps of GPUs. Version 10: slots of 192 bytes. Version 9: slots of
 * 16 and 144 bytes. Version 8: sizes in LL. Version 7: exposed steps. Version 6: signatures.
 * Version 5: offers. Version 4: slots of the host device for small steps. Version 3: sizes beside
 * the tail. Version 2: 64 channels.
 */
package org.nccl4j.device.connection;
