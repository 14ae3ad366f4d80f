// SPDX-FileCopyrightText: 2026 The Weft authors
// SPDX-License-Identifier: Apache-2.0

// The FIFO of steps whose slots are filled with lines (LL, and with WIDE those of LL128): flags that
// are numbers of steps, their beginning again, slots that are given back by head.
//
// Models: core/device/primitives_ll.h (run, await), core/device/step_lines.h (put, take, fill_rest),
// core/device/shared_lines.h (put, take), step_flag and fills_whole_slot in core/model/step_lines.h. How a
// receiver sleeps on tail is that of step_fifo.pml.
//
// Steps have one line or two, in any order and without end.
//
// Holds:
//  - a receiver takes lines of its own step alone, also after flags have begun again;
//  - no line is overwritten before it was read;
//  - nobody waits for ever.
//
// Stores of LL are not ordered: the words of a step arrive in any order, and those that fill the
// rest of a slot may wait in a buffer until the sender writes there again, or until the receiver has
// seen a tail behind them. Of LL128 a line's flag is stored after its payload, with release; where lanes
// share a line it arrives with it, which is less than that.
//
// Planted mistakes, and what they are found by:
// PLANT_FILLS_NO_REST: an assertion
// PLANT_FILLS_ONCE_A_ROUND: an assertion
// PLANT_FILLS_ONE_SLOT: an assertion
// PLANT_DOES_NOT_WAIT_FOR_FILLING: an assertion
// PLANT_LOOKS_AT_ONE_WORD: an assertion
// PLANT_WAITS_FOR_NO_CREDIT: an assertion
// PLANT_GIVES_BACK_BEFORE_READING: an assertion
// PLANT_PAYLOAD_WHERE_FLAGS_ARE: an assertion
// PLANT_FLAG_WITHOUT_RELEASE: an assertion

#define kSlots 2
#define kLines 2  // of a slot
#define kWords 2  // of a line

// Numbers of steps begin again with their flags. What is taken must have been written since it was
// last taken, so it is of the step that is due.
#define kPeriod 8
#ifdef PLANT_FLAG_WITHOUT_RELEASE
#define WIDE
#endif
#ifdef WIDE  // of 64 bits: none comes again
#define kWide true
#define kNeverAgain 255
#define FLAG(step) ((step) + 1)
#else
#define kWide false
#define FLAG(step) (((step) + 1) % kPeriod)
#endif

#define kHalf (kPeriod / 2 - 1)
#ifdef PLANT_FILLS_NO_REST
#define FILLS(step) false
#elif defined(PLANT_FILLS_ONCE_A_ROUND)
#define FILLS(step) (FLAG(step) > kPeriod - 1 - kSlots)
#elif defined(PLANT_FILLS_ONE_SLOT)
#define FILLS(step) ((FLAG(step) & kHalf) > kHalf - 1)
#else
#define FILLS(step) ((FLAG(step) & kHalf) > kHalf - kSlots)
#endif

typedef Word {
  byte flag;
  bool unread;
  bool late;      // another flag waits in the sender's buffer
  byte late_flag;
};
Word word[kSlots * kLines * kWords];
#define FIRST(step) (((step) % kSlots) * kLines * kWords)

byte head;
byte tail;
byte length[4];  // lines of the latest steps, on which both ends agree
byte begun;      // steps that one of the two has begun

inline begin(step) {
  atomic {
    if
    :: begun == step ->
       if
       :: length[step % 4] = 1
       :: length[step % 4] = kLines
       fi;
       begun = (step + 1) % kPeriod
    :: else
    fi
  }
}

#define STORE(at, of) \
  assert(!word[at].unread); \
  word[at].flag = FLAG(of); \
  word[at].unread = true; \
  word[at].late = false; \
  word[at].late_flag = 0

proctype sender() {
  byte step, at, end;
  byte left;  // words of the step that are still to come, a bit each
  do
  :: true ->
#ifndef PLANT_WAITS_FOR_NO_CREDIT
     (step + kPeriod - head) % kPeriod < kSlots;
#else
     (step + kPeriod - head) % kPeriod < kSlots + 1;
#endif
     begin(step);
#ifdef PLANT_PAYLOAD_WHERE_FLAGS_ARE
     // A step of another protocol used the slot: its payload may be anything.
     atomic {
       if
       :: word[FIRST(step)].unread
       :: !word[FIRST(step)].unread -> word[FIRST(step)].flag = FLAG(step)
       fi
     };
#endif
     end = FIRST(step) + length[step % 4] * kWords;
#if defined(WIDE) && !defined(PLANT_FLAG_WITHOUT_RELEASE)
     at = FIRST(step);
     do
     :: at == end -> break
     :: else -> atomic { STORE(at, step); at++ }
     od;
#else
     left = (1 << (length[step % 4] * kWords)) - 1;
     do
     :: left == 0 -> break
     :: else ->
        atomic {
          at = 0;  // any of them
          do
          :: (left & (1 << at)) != 0 -> break
          :: (left >> (at + 1)) != 0 -> at++
          od;
          left = left & ~(1 << at);
          at = FIRST(step) + at;
          STORE(at, step)
        }
     od;
#endif
#ifndef WIDE
     at = end;
     do
     :: !FILLS(step) || at == FIRST(step) + kLines * kWords -> break
     :: FILLS(step) && at < FIRST(step) + kLines * kWords ->
        atomic {
          assert(!word[at].unread);
          if
          :: word[at].flag = FLAG(step); word[at].late = false; word[at].late_flag = 0
          :: word[at].late = true; word[at].late_flag = FLAG(step)
          fi;
          at++
        }
     od;
#endif
     atomic { step = (step + 1) % kPeriod; tail = step; at = 0; end = 0 }
  od
}

proctype receiver() {
  byte step, at, end;
  do
  :: true ->
     begin(step);
#ifdef PLANT_GIVES_BACK_BEFORE_READING
     word[FIRST(step)].flag == FLAG(step) && word[FIRST(step)].unread;
     head = (step + 1) % kPeriod;
#endif
     at = FIRST(step);
     end = at + length[step % 4] * kWords;
     do
     :: at == end -> break
     :: else ->
        atomic {
#ifdef PLANT_LOOKS_AT_ONE_WORD
          word[at].flag == FLAG(step);
#else
          word[at + kWords - 1].flag == FLAG(step) && (kWide || word[at].flag == FLAG(step));
#endif
          assert(word[at].unread && word[at + 1].unread);
          word[at].unread = false;
          word[at + 1].unread = false;
#ifdef WIDE
          word[at].flag = kNeverAgain;
          word[at + 1].flag = kNeverAgain;
#endif
          at = at + kWords
        }
     od;
#ifndef WIDE
     if
     :: FILLS(step) ->
#ifndef PLANT_DOES_NOT_WAIT_FOR_FILLING
        atomic {
          (tail + kPeriod - step - 1) % kPeriod <= kSlots;
          at = FIRST(step);
          do
          :: at == FIRST(step) + kLines * kWords -> break
          :: else ->
             if
             :: word[at].late -> word[at].flag = word[at].late_flag; word[at].late = false; word[at].late_flag = 0
             :: else
             fi;
             at++
          od
        }
#else
        skip
#endif
     :: else
     fi;
#endif
     atomic { step = (step + 1) % kPeriod; head = step; at = 0; end = 0 }
  od
}

init {
  atomic {
    run sender();
    run receiver()
  }
}
