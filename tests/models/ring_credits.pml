// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// A ring over the FIFO of steps: every rank sends a whole chunk before it takes its first slot.
//
// Models: ring_all_reduce and ring_all_reduce_fits in core/device/ring_all_reduce.h, and the order
// of waits and posts of SimplePrimitives::run in core/device/primitives_simple.h. ring_chunk_fits
// is the same rule for rings that only hand out, or only reduce. The FIFO itself is a channel here:
// see step_fifo.pml.
//
// Holds, for 3 ranks, 1 to 3 slots, two loops and chunks of any number of steps below that of
// slots, the last ones shorter or empty:
//  - no rank waits for ever;
//  - what arrives is the chunk that the hop expects.
//
// Planted mistakes, and what they are found by:
// PLANT_CHUNK_FILLS_ALL_SLOTS: a deadlock
// PLANT_CHUNKS_GO_THE_OTHER_WAY: an assertion

#define kRanks 3
#define kMostSlots 3
#define kLoops 2
#define kHops (2 * kRanks - 2)  // that receive

byte slots;           // of each connection
byte length[kRanks];  // steps of each chunk in the last loop; in those before all have the first's
chan to_next[kRanks] = [kMostSlots] of { byte };

#ifdef PLANT_CHUNKS_GO_THE_OTHER_WAY
#define CHUNK(hop) ((rank + hop) % kRanks)
#else
#define CHUNK(hop) ((rank + 2 * kRanks - hop) % kRanks)
#endif
#define STEPS_OF(which) (loop + 1 < kLoops -> length[0] : length[which])
#define PREVIOUS ((rank + kRanks - 1) % kRanks)

proctype member(byte rank) {
  byte loop, hop, step, arrived;
  do
  :: loop == kLoops -> break
  :: else ->
     hop = 0;
     do
     :: hop > kHops -> break
     :: else ->
        step = 0;
        do
        :: step == STEPS_OF(CHUNK(hop)) -> break
        :: else ->
           if
           :: hop > 0 ->  // waits for a step that has arrived
              to_next[PREVIOUS]?<arrived>;
              assert(arrived == CHUNK(hop))
           :: else
           fi;
           if
           :: hop < kHops ->  // waits for a free slot, then fills it
              atomic { len(to_next[rank]) < slots -> to_next[rank]!CHUNK(hop) }
           :: else
           fi;
           if
           :: hop > 0 -> to_next[PREVIOUS]?arrived  // frees the slot
           :: else
           fi;
           step++
        od;
        hop++
     od;
     loop++
  od
}

init {
  byte steps;
  atomic {
    select(slots : 1 .. kMostSlots);
#ifdef PLANT_CHUNK_FILLS_ALL_SLOTS
    length[0] = slots;
#else
    length[0] = slots - 1;
#endif
    select(steps : 0 .. length[0]);
    length[1] = steps;
    select(steps : 0 .. length[0]);
    length[2] = steps;
    run member(0);
    run member(1);
    run member(2)
  }
}
