// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// Calls between two ranks some of whose steps lie in slots of the connection the other way.
//
// Models: slot_payload in core/model/connection_view.h, by its users in core/device/bulk_walkers.h
// and core/device/primitives_simple.h; and that the kernel of a call begins when all of the one
// before has ended on its device. That a step is seen after its counter is modelled by
// step_fifo.pml.
//
// Holds, for three calls of 1 to 3 steps in any order, one way by both ends, one way without, and both
// ways at once:
//  - what is filled holds no step that somebody has yet to take;
//  - what is taken is the step that is expected.
//
// Planted mistakes, and what they are found by. Calls both ways have steps there, too; a rank sends
// in the next call while it still receives in this one; a slot is given back before it is read; a
// sender counts the steps of a call from its beginning instead of all:
// PLANT_EXCHANGES_BY_BOTH_ENDS: an assertion
// PLANT_NEXT_CALL_BEFORE_TAKING: an assertion
// PLANT_HEAD_BEFORE_READING: an assertion
// PLANT_COUNTS_BY_CALL: an assertion

#define kCalls 3
#define kSlots 2
#define kMostSteps 3

#define kFrom0 0
#define kFrom1 1
#define kFrom0ByOneEnd 2
#define kBothWays 3

byte kind[kCalls];
byte steps;  // of each call
byte tail[2], head[2];   // connection c goes from rank c to the other
byte slot[2 * kSlots];   // those of c lie at its receiver; 0: nobody wants what is there
byte sent[2], taken[2];  // calls that a rank's sender, its receiver have done with

// Not one step of two: slots would then have their steps at the same end for good, and nobody would
// find that calls both ways have some there.
#define NAME(c, step) (1 + (c) + 2 * (step))
#define LIES_AT_OTHER_END(step) ((step) % 3 == 1)
#ifdef PLANT_EXCHANGES_BY_BOTH_ENDS
#define BY_BOTH_ENDS (kind[call] != kFrom0ByOneEnd)
#else
#define BY_BOTH_ENDS (kind[call] == kFrom0 || kind[call] == kFrom1)
#endif
#define PLACE(c, step, counted)                                                        \
  (((BY_BOTH_ENDS && LIES_AT_OTHER_END(counted)) -> 1 - (c) : (c)) * kSlots + (step) % kSlots)
#ifdef PLANT_COUNTS_BY_CALL
#define COUNTED filled
#else
#define COUNTED tail[me]
#endif
#define SENDS(c) \
  (kind[call] == kBothWays || kind[call] == (c) || (kind[call] == kFrom0ByOneEnd && (c) == 0))

proctype sender(byte me) {
  byte call, filled;
  do
  :: call == kCalls -> break
  :: else ->
#ifndef PLANT_NEXT_CALL_BEFORE_TAKING
     taken[me] >= call;
#endif
     filled = 0;
     do
     :: !SENDS(me) || filled == steps -> break
     :: else ->
        atomic {
          tail[me] < head[me] + kSlots;
          assert(slot[PLACE(me, tail[me], COUNTED)] == 0);
          slot[PLACE(me, tail[me], COUNTED)] = NAME(me, tail[me]);
          tail[me]++;
          filled++
        }
     od;
     atomic { sent[me]++; call++ }
  od
}

proctype receiver(byte me) {
  byte call, got;
  byte from = 1 - me;
  do
  :: call == kCalls -> break
  :: else ->
     sent[me] >= call;
     got = 0;
     do
     :: !SENDS(from) || got == steps -> break
     :: else ->
#ifdef PLANT_HEAD_BEFORE_READING
        tail[from] > head[from];
        head[from]++;
        atomic {
          assert(slot[PLACE(from, head[from] - 1, head[from] - 1)] == NAME(from, head[from] - 1));
          slot[PLACE(from, head[from] - 1, head[from] - 1)] = 0;
          got++
        }
#else
        atomic {
          tail[from] > head[from];
          assert(slot[PLACE(from, head[from], head[from])] == NAME(from, head[from]));
          slot[PLACE(from, head[from], head[from])] = 0;
          head[from]++;
          got++
        }
#endif
     od;
     atomic { taken[me]++; call++ }
  od
}

init {
  byte i, chosen;
  atomic {
    for (i : 0 .. kCalls - 1) {
      select(chosen : kFrom0 .. kBothWays);
      kind[i] = chosen
    }
    select(steps : 1 .. kMostSteps);
    run sender(0);
    run receiver(0);
    run sender(1);
    run receiver(1)
  }
}
